"""Picture grids: inputs with a small radius and a confident network, beside inputs with a large radius and a doubtful one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from experiments.paper.confidence import Confidence, confidences
from experiments.paper.evaluation import ALPHA, Evaluation
from experiments.paper.written import write_figure
from holdfast.scores.rounding import floor_decimals
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
        why: what a title says of radii that are not the paper's.
    """

    small: float
    confident: float
    large: float
    doubtful: float
    why: str = ""

    def scaled(self, factor: float, why: str = "") -> "CutOffs":
        """Other radii, to three decimals, and the same softmax."""
        small, large = (round(float(factor * radius), 3) for radius in (self.small, self.large))
        return CutOffs(small, self.confident, large, self.doubtful, why)

    def within_reach(self, run: Evaluation) -> "CutOffs":
        """Scaled as the largest radius that the run's sigma and n can certify, if the large radius is beyond it."""
        reach, theirs = largest_radius(run.sigma, run.n), largest_radius(0.25, 100_000)
        if reach > self.large:
            return self
        why = f"cut-offs on the radius scaled by {reach / theirs:.2f}: this run reaches {reach:.2f}, the paper's {theirs:.2f}"
        return self.scaled(reach / theirs, why)

    def left(self, each: Confidence) -> bool:
        """Whether an input has a small radius and a confident network."""
        return each.answer.label_radius < self.small and each.softmax > self.confident

    def right(self, each: Confidence) -> bool:
        """Whether an input has a large radius and a doubtful network."""
        return each.answer.label_radius > self.large and each.softmax < self.doubtful


CIFAR10 = CutOffs(small=0.2, confident=0.7, large=0.5, doubtful=0.4)
IMAGENET = CutOffs(small=0.4, confident=0.6, large=0.9, doubtful=0.1)
"""The paper's, in the two rows of its figure 4."""


def largest_radius(sigma: float, n: int) -> float:
    """What Cohen et al.'s certificate comes to if all n copies vote alike, with all of alpha: no label radius is larger."""
    return sigma * float(norm.ppf(ALPHA ** (1 / n)))


@dataclass(frozen=True)
class Choice:
    """Some inputs, the rule they were chosen by, and how many inputs meet the cut-offs."""

    title: str
    rule: str
    meeting: tuple[Confidence, ...]
    shown: tuple[Confidence, ...]


def choose(inputs: Sequence[Confidence], cut_offs: CutOffs = CIFAR10) -> tuple[Choice, Choice]:
    """Small radius with a confident network, and large radius with a doubtful one.

    If fewer than four inputs meet both cut-offs, those that meet the one on the softmax, the least or largest radii first.
    """
    confident = [each for each in inputs if each.softmax > cut_offs.confident]
    doubtful = [each for each in inputs if each.softmax < cut_offs.doubtful]
    return (
        _choice(
            "small radius, confident network",
            (f"radius < {cut_offs.small}", f"softmax > {cut_offs.confident}", "the least radii"),
            [each for each in confident if cut_offs.left(each)],
            sorted(confident, key=lambda each: each.answer.label_radius),
            len(inputs),
        ),
        _choice(
            "large radius, doubtful network",
            (f"radius > {cut_offs.large}", f"softmax < {cut_offs.doubtful}", "the largest radii"),
            [each for each in doubtful if cut_offs.right(each)],
            sorted(doubtful, key=lambda each: -each.answer.label_radius),
            len(inputs),
        ),
    )


def picture_figure(run: Evaluation, data: LabelledData, cut_offs: CutOffs = CIFAR10) -> "Figure":
    """The paper's figure 4 for one run."""
    from holdfast.house_figure import HouseFigure

    where = {index: position for position, index in enumerate(data.indices.tolist())}
    figure = HouseFigure(figsize=(12.0, 5.1))
    sides = np.asarray(figure.subfigures(1, 2, wspace=0.04), dtype=object)
    for side, choice in zip(sides, choose(confidences(run), cut_offs), strict=True):
        side.suptitle(f"{choice.title}\n{run.heading}\n{choice.rule}", fontsize=10)
        for axes in side.subplots(ROWS, COLUMNS, squeeze=False).ravel():
            axes.set_axis_off()
        for axes, each in zip(side.axes, choice.shown, strict=False):
            image = np.moveaxis(data.image(where[each.answer.index]), 0, -1).squeeze()
            axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_title(_caption(run, each), fontsize=8)
    if cut_offs.why:
        figure.suptitle(cut_offs.why, fontsize=10)
    return figure


def write_pictures(run: Evaluation, folder: Path, data: LabelledData, cut_offs: CutOffs = CIFAR10) -> list[Path]:
    """The grids of one run, and which inputs meet the cut-offs."""
    numbers = write_choice(run, folder, cut_offs)
    return [*write_figure(picture_figure(run, data, cut_offs), numbers.with_suffix(".png")), numbers]


def write_choice(run: Evaluation, folder: Path, cut_offs: CutOffs = CIFAR10) -> Path:
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
    target = folder / f"pictures_{run.name}.json"
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
    title: str,
    rules: tuple[str, str, str],
    meeting: Sequence[Confidence],
    nearest: Sequence[Confidence],
    inputs: int,
) -> Choice:
    room = ROWS * COLUMNS
    on_radius, on_softmax, first = rules
    if len(meeting) >= COLUMNS:
        step = max(1, len(meeting) // room)
        rule = f"{on_radius}, {on_softmax}: {len(meeting)} of {inputs} inputs"
        return Choice(title, rule, tuple(meeting), tuple(meeting[::step][:room]))
    rule = f"{on_softmax}, {first}; with {on_radius}: {len(meeting) or 'none'} of {inputs} inputs"
    return Choice(title, rule, tuple(meeting), tuple(nearest[:room]))
