"""The worst-case classifiers behind Theorems 1 and 2, along the direction of the perturbation."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SHIFT = 1.0


@dataclass(frozen=True)
class WorstCase:
    """A score that falls in steps along the perturbation: ``levels[j]`` is reached with probability ``reached[j]`` around x.

    Among all scores with that distribution around x (positions in units of sigma, x at 0) it has the least average around
    every point ``r > 0``: each set where the score reaches a level is the half-space that the perturbation leaves.

    Source:
        Kumar et al. 2020, figure 1: (a) one step from b to a, the worst case of Theorem 1; (b) several, that of Theorem 2.
    """

    levels: tuple[float, ...]
    reached: tuple[float, ...]
    least: float = 0.0

    @property
    def edges(self) -> Floats:
        """Up to where each level is reached: ``Phi^-1(reached)``."""
        return np.asarray(ndtri(np.array(self.reached)), dtype=np.float64)

    @property
    def heights(self) -> Floats:
        """How much each level adds to the one below."""
        return np.diff(np.array(self.levels), prepend=self.least)

    def score(self, position: Floats) -> Floats:
        """The classifier itself."""
        reaches = np.asarray(position)[..., None] <= self.edges
        return np.asarray(self.least + np.sum(self.heights * reaches, axis=-1), dtype=np.float64)

    def average(self, r: Floats) -> Floats:
        """Its average under noise centred at r: Theorem 2's sum, reached."""
        shares = ndtr(self.edges - np.asarray(r)[..., None])
        return np.asarray(self.least + np.sum(self.heights * shares, axis=-1), dtype=np.float64)


STEPS = WorstCase(levels=(0.2, 0.45, 0.7, 0.95), reached=(0.99, 0.93, 0.78, 0.5))


def naive_of(steps: WorstCase) -> WorstCase:
    """What is left of a classifier when only its average is known: all or nothing."""
    return WorstCase(levels=(1.0,), reached=(float(steps.average(np.array(0.0))),))


def worst_case_figure() -> "Figure":
    """Both worst cases with the same average at x, and what becomes of the average as x moves."""
    from holdfast.house_figure import HouseFigure

    naive = naive_of(STEPS)
    figure = HouseFigure(figsize=(11.0, 3.9))
    left, middle, right = figure.subplots(1, 3)
    _draw_classifier(left, naive, "naive: only the average is known")
    _draw_classifier(middle, STEPS, "CDF: the distribution is known")
    r = np.linspace(0.0, 3.0, 121)
    right.plot(r, STEPS.average(r), color=PALETTE[0], label="CDF (Theorem 2)")
    right.plot(r, naive.average(r), "--", color=PALETTE[1], label="naive (Theorem 1)")
    right.axvline(SHIFT, color="0.6", linewidth=1.0, linestyle=":")
    right.set_xlim(0.0, 3.0)
    right.set_ylim(0.0, 1.0)
    right.set_xlabel("distance to x, in units of σ")
    right.set_ylabel("least average score")
    right.set_title("the same average at x, moved away", fontsize=10)
    right.legend(loc="upper right", edgecolor="none")
    return figure


def write_worst_case(folder: Path) -> list[Path]:
    """The figure and its numbers."""
    pictures = write_figure(worst_case_figure(), folder / "worst_case.png")
    numbers = {
        name: {
            "levels": list(case.levels),
            "reached": list(case.reached),
            "average": {f"{r:g}": float(case.average(np.array(r))) for r in (0.0, SHIFT, 2.0, 3.0)},
        }
        for name, case in {"cdf": STEPS, "naive": naive_of(STEPS)}.items()
    }
    target = folder / "worst_case.json"
    target.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return [*pictures, target]


def _draw_classifier(axes: "Axes", case: WorstCase, title: str) -> None:
    """The score as a staircase on a coloured ground, with the noise around x and x' below it."""
    from matplotlib import colormaps

    low, high = -3.2, 3.6
    colours = colormaps["coolwarm"]
    cuts = [low, *case.edges[::-1].tolist(), high]
    for start, end in pairwise(cuts):
        value = float(case.score(np.array((start + end) / 2)))
        axes.axvspan(start, end, color=colours(value), alpha=0.25, linewidth=0)
    position = np.linspace(low, high, 1201)
    axes.plot(position, case.score(position), color="0.15", label="score")
    for centre, colour, name in ((0.0, PALETTE[0], "x"), (SHIFT, PALETTE[1], "x'")):
        density = norm.pdf(position, loc=centre)
        axes.plot(position, density, color=colour, linewidth=1.8)
        average = float(case.average(np.array(centre)))
        axes.annotate(
            f"around {name}: {average:.2f}",
            xy=(0.98, 0.95 - 0.09 * (centre > 0)),
            xycoords="axes fraction",
            ha="right",
            va="top",
            color=colour,
            fontsize=10,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )
    axes.grid(visible=False)
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, 1.12)
    axes.set_xlabel("position along the perturbation, in units of σ")
    axes.set_ylabel("score (black); density of the noise")
    axes.set_title(title, fontsize=10)
