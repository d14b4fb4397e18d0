"""The figure of the project's README: Holdfast's certificates beside the paper's, from the same noisy copies."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.paper.accuracy import Counts
from experiments.paper.evaluation import ALPHA, OURS, PAPER, THRESHOLDS
from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = (0.5, 0.9)


def write_overview(counts: Counts, out: Path) -> list[Path]:
    """The figure of the first of the networks."""
    return write_figure(overview_figure(counts), out / "overview.png")


def overview_figure(counts: Counts) -> "Figure":
    """Two thresholds and two bounds; what lies between the bounds is the gain, in a tint. Lines are named where they are."""
    from matplotlib.ticker import PercentFormatter

    from holdfast.house_figure import HouseFigure

    run = counts.runs[0]
    figure = HouseFigure(figsize=(8.0, 4.0))
    axes = figure.add_subplot()
    for colour, threshold in zip(PALETTE, _SHOWN, strict=False):
        k = THRESHOLDS["score"].index(threshold)
        ours, paper = (counts.of(run, "score", line)[k] / len(run) for line in (OURS, PAPER))
        axes.fill_between(run.radii, paper, ours, step="pre", color=colour, alpha=0.13, linewidth=0)
        for values, style, width in ((paper, "--", 1.6), (ours, "-", 2.4)):
            last = int(np.count_nonzero(values))
            x, y = np.append(run.radii[:last], run.radii[last - 1]), np.append(values[:last], 0.0)
            axes.plot(x, y, style, color=colour, linewidth=width, drawstyle="steps-pre")
        for values, name, share, corner, weight in (
            (ours, f"average score > {format_number(threshold)}", 0.1, (6, 10), "bold"),
            (ours, "Holdfast", 0.72, (6, 4), "normal"),
            (paper, "the paper's bound", 0.8, (-6, -4), "normal"),
        ):
            at = int(share * np.count_nonzero(values))
            axes.annotate(
                name,
                (run.radii[at], values[at]),
                xytext=corner,
                textcoords="offset points",
                ha="left" if corner > (0, 0) else "right",
                va="bottom" if corner > (0, 0) else "top",
                color=colour,
                weight=weight,
            )
    axes.set_xlim(0.0, 4 * run.sigma)
    axes.set_ylim(0.0, None)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("radius of the perturbation (ℓ₂)")
    axes.set_ylabel("certified accuracy")
    axes.set_title(f"Certified accuracy on {run.data}\n", loc="left", fontsize=12, weight="bold")
    copies = f"σ = {format_number(run.sigma)}, {run.n:,} noisy copies of each, α = {format_number(ALPHA)}"
    axes.annotate(
        f"{len(run)} test images, {copies}; the same copies for both bounds",
        (0.0, 1.0),
        xytext=(0, 7),
        xycoords="axes fraction",
        textcoords="offset points",
        color="0.35",
        fontsize=9.5,
    )
    return figure
