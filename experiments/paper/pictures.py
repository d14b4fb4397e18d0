"""Picture grids: inputs with a small radius and a confident network, beside inputs with a large radius and a doubtful one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from experiments.paper.confidence import Confidence, column, confidences
from experiments.paper.evaluation import Evaluation
from experiments.paper.png import write_png
from holdfast.plotting import house_style
from holdfast.scores.rounding import floor_decimals, format_number
from holdfast.zoo.datasets.labelled import LabelledData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, COLUMNS = 2, 4


@dataclass(frozen=True)
class CutOffs:
    """Which inputs the two grids of figure 4 show: by label radius, and by the network's softmax at the clean input.

    Attributes:
        small: the left grid has radii below it,
        confident: and a softmax above it.
        large: the right grid has radii above it,
        doubtful: and a softmax below it.
    """

    small: float
    confident: float
    large: float
    doubtful: float

    def scaled(self, factor: float) -> "CutOffs":
        """Other radii, to three decimals, and the same softmax."""
        return CutOffs(round(factor * self.small, 3), self.confident, round(factor * self.large, 3), self.doubtful)

    def left(self, each: Confidence) -> bool:
        """Whether an input has a small radius and a confident network."""
        return each.answer.label_radius < self.small and each.softmax > self.confident

    def right(self, each: Confidence) -> bool:
        """Whether an input has a large radius and a doubtful network."""
        return each.answer.label_radius > self.large and each.softmax < self.doubtful


CIFAR10 = CutOffs(small=0.2, confident=0.7, large=0.5, doubtful=0.4)
"""The paper's, in its figure 4."""


@dataclass(frozen=True)
class Choice:
    """Some inputs, the rule they were chosen by, and how many inputs meet the cut-offs."""

    title: str
    rule: str
    meeting: tuple[Confidence, ...]
    shown: tuple[Confidence, ...]


def choose(inputs: Sequence[Confidence], cut_offs: CutOffs = CIFAR10) -> tuple[Choice, Choice]:
    """Small radius with a confident network, and large radius with a doubtful one, if enough inputs meet the cut-offs.

    If they do not, the inputs that radius and softmax order most differently: by rank of one less rank of the other.
    """
    radius = rankdata(column(inputs, lambda each: each.answer.label_radius))
    softmax = rankdata(column(inputs, lambda each: each.softmax))
    order = np.argsort(radius - softmax, kind="stable")
    return (
        _choice(
            ("small radius, confident network", "ranked higher by softmax than by radius"),
            f"radius < {cut_offs.small}, softmax > {cut_offs.confident}",
            [each for each in inputs if cut_offs.left(each)],
            inputs,
            order,
        ),
        _choice(
            ("large radius, doubtful network", "ranked higher by radius than by softmax"),
            f"radius > {cut_offs.large}, softmax < {cut_offs.doubtful}",
            [each for each in inputs if cut_offs.right(each)],
            inputs,
            order[::-1],
        ),
    )


def picture_figure(run: Evaluation, data: LabelledData, cut_offs: CutOffs = CIFAR10) -> "Figure":
    """The paper's figure 4 for one run."""
    from matplotlib.figure import Figure

    where = {index: position for position, index in enumerate(data.indices.tolist())}
    with house_style():
        figure = Figure(figsize=(12.0, 4.9))
        sides = np.asarray(figure.subfigures(1, 2, wspace=0.04), dtype=object)
        for side, choice in zip(sides, choose(confidences(run), cut_offs), strict=True):
            side.suptitle(f"{choice.title} (sigma = {format_number(run.sigma)})\n{choice.rule}", fontsize=10.5)
            for axes in side.subplots(ROWS, COLUMNS, squeeze=False).ravel():
                axes.set_axis_off()
            for axes, each in zip(side.axes, choice.shown, strict=False):
                image = np.moveaxis(data.image(where[each.answer.index]), 0, -1).squeeze()
                axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes.set_title(_caption(run, each), fontsize=8)
        return figure


def write_pictures(
    run: Evaluation, folder: Path, data: LabelledData, cut_offs: CutOffs = CIFAR10, *, name: str = "pictures"
) -> list[Path]:
    """The grids of one run, and which inputs meet the cut-offs."""
    numbers = write_choice(run, folder, cut_offs, name=name)
    return [write_png(picture_figure(run, data, cut_offs), numbers.with_suffix(".png")), numbers]


def write_choice(run: Evaluation, folder: Path, cut_offs: CutOffs = CIFAR10, *, name: str = "pictures") -> Path:
    """Which inputs meet the cut-offs, and which of them the grids show; softmax and radii cut after four decimals."""
    document = [
        {
            "title": choice.title,
            "rule": choice.rule,
            "inputs_within_the_cut_offs": len(choice.meeting),
            "shown": [each.answer.index for each in choice.shown],
            "inputs": [_numbers(each) for each in dict.fromkeys((*choice.meeting, *choice.shown))],
        }
        for choice in choose(confidences(run), cut_offs)
    ]
    target = folder / f"{name}_sigma{run.sigma:.2f}.json"
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return target


def _numbers(each: Confidence) -> dict[str, float]:
    a = each.answer
    return {
        "index": a.index,
        "label": a.label,
        "predicted": a.predicted,
        "network_prefers": each.preferred,
        "radius": float(floor_decimals(a.label_radius, 4)),
        "softmax": float(floor_decimals(each.softmax, 4)),
        "score": float(floor_decimals(a.score, 4)),
    }


def _caption(run: Evaluation, each: Confidence) -> str:
    """The predicted class, what it should be if that is wrong, and what the network prefers without noise if that differs."""
    a = each.answer
    wrong = "" if a.right else f", is {run.name_of(a.label)}"
    alone = "" if each.preferred == a.predicted else f"no noise: {run.name_of(each.preferred)}"
    numbers = f"R {floor_decimals(a.label_radius, 2)}, softmax {floor_decimals(each.softmax, 2)}"
    return f"{run.name_of(a.predicted)}{wrong}\n{numbers}\n{alone}"


def _choice(
    titles: tuple[str, str],
    rule: str,
    meeting: Sequence[Confidence],
    inputs: Sequence[Confidence],
    order: NDArray[np.int64],
) -> Choice:
    room = ROWS * COLUMNS
    if len(meeting) >= COLUMNS:
        step = max(1, len(meeting) // room)
        said = f"{rule}: {len(meeting)} of {len(inputs)} inputs"
        return Choice(titles[0], said, tuple(meeting), tuple(meeting[::step][:room]))
    said = f"those whose ranks differ most; {rule}: {len(meeting) or 'none'} of {len(inputs)}"
    return Choice(titles[1], said, tuple(meeting), tuple(inputs[k] for k in order[:room].tolist()))
