"""Picture grids: inputs with a small radius and high confidence, beside inputs with a large radius and low confidence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from experiments.paper.evaluation import Answer, Evaluation
from experiments.paper.png import write_png
from holdfast.plotting import house_style
from holdfast.scores.rounding import floor_decimals, format_number
from holdfast.zoo.datasets.labelled import LabelledData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, COLUMNS = 2, 4
SMALL, CONFIDENT = 0.2, 0.7
LARGE, DOUBTFUL = 0.5, 0.4
"""The paper's cut-offs for CIFAR-10 (figure 4)."""


@dataclass(frozen=True)
class Choice:
    """Some inputs, the rule they were chosen by, and how many inputs meet the paper's cut-offs."""

    title: str
    rule: str
    meeting: int
    answers: tuple[Answer, ...]


def choose(answers: Sequence[Answer]) -> tuple[Choice, Choice]:
    """Small radius with high confidence, and large radius with low: the paper's cut-offs if enough inputs meet them.

    If they do not, the inputs that radius and score order most differently: by rank of one less rank of the other.
    """
    radius, score = (rankdata([getattr(a, name) for a in answers]) for name in ("label_radius", "score"))
    order = np.argsort(radius - score, kind="stable")
    confident = [a for a in answers if a.label_radius < SMALL and a.score > CONFIDENT]
    doubtful = [a for a in answers if a.label_radius > LARGE and a.score < DOUBTFUL]
    return (
        _choice(
            ("small radius, high confidence", "ranked higher by score than by radius"),
            f"radius < {SMALL}, score > {CONFIDENT}",
            confident,
            answers,
            order,
        ),
        _choice(
            ("large radius, low confidence", "ranked higher by radius than by score"),
            f"radius > {LARGE}, score < {DOUBTFUL}",
            doubtful,
            answers,
            order[::-1],
        ),
    )


def picture_figure(run: Evaluation, data: LabelledData) -> "Figure":
    """The paper's figure 4 for one run."""
    from matplotlib.figure import Figure

    where = {index: position for position, index in enumerate(data.indices.tolist())}
    with house_style():
        figure = Figure(figsize=(12.0, 4.4))
        sides = np.asarray(figure.subfigures(1, 2, wspace=0.04), dtype=object)
        for side, choice in zip(sides, choose(run.answers), strict=True):
            side.suptitle(f"{choice.title} (sigma = {format_number(run.sigma)})\n{choice.rule}", fontsize=10.5)
            for axes in side.subplots(ROWS, COLUMNS, squeeze=False).ravel():
                axes.set_axis_off()
            for axes, answer in zip(side.axes, choice.answers, strict=False):
                image = np.moveaxis(data.image(where[answer.index]), 0, -1).squeeze()
                axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                wrong = "" if answer.right else f", is {run.name_of(answer.label)}"
                numbers = f"R {floor_decimals(answer.label_radius, 2)}, score {floor_decimals(answer.score, 2)}"
                axes.set_title(f"{run.name_of(answer.predicted)}{wrong}\n{numbers}", fontsize=8.5)
        return figure


def write_pictures(run: Evaluation, data: LabelledData, folder: Path) -> list[Path]:
    """The grids of one run, and which inputs are in them."""
    name = f"pictures_sigma{run.sigma:.2f}"
    numbers = [
        {
            "title": choice.title,
            "rule": choice.rule,
            "inputs_within_the_papers_cut_offs": choice.meeting,
            "indices": [answer.index for answer in choice.answers],
        }
        for choice in choose(run.answers)
    ]
    target = folder / f"{name}.json"
    target.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return [write_png(picture_figure(run, data), folder / f"{name}.png"), target]


def _choice(
    titles: tuple[str, str],
    rule: str,
    meeting: Sequence[Answer],
    answers: Sequence[Answer],
    order: NDArray[np.int64],
) -> Choice:
    room = ROWS * COLUMNS
    if len(meeting) >= COLUMNS:
        step = max(1, len(meeting) // room)
        return Choice(
            titles[0], f"{rule}: {len(meeting)} of {len(answers)} inputs", len(meeting), tuple(meeting[::step][:room])
        )
    said = f"those whose ranks differ most; {rule}: {len(meeting) or 'none'} of {len(answers)}"
    return Choice(titles[1], said, len(meeting), tuple(answers[k] for k in order[:room].tolist()))
