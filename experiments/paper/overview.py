"""The figure of the project's README: Holdfast's certificates beside the paper's, from the same noisy copies."""

from pathlib import Path

from experiments.paper.accuracy import STYLES, Counts
from experiments.paper.evaluation import OURS, PAPER, THRESHOLDS
from experiments.paper.png import write_png
from holdfast.plotting import PALETTE
from holdfast.scores.rounding import format_number

_SHOWN = (0.5, 0.9)


def write_overview(counts: Counts, out: Path) -> list[Path]:
    """Two thresholds and two bounds, for the first of the networks."""
    from matplotlib.lines import Line2D

    from holdfast.house_figure import HouseFigure

    run = counts.runs[0]
    figure = HouseFigure(figsize=(7.2, 3.6))
    axes = figure.add_subplot()
    for colour, threshold in zip(PALETTE, _SHOWN, strict=False):
        for line in (OURS, PAPER):
            values = counts.of(run, "score", line)[THRESHOLDS["score"].index(threshold)] / len(run)
            axes.plot(run.radii, values, STYLES[line.key], color=colour, drawstyle="steps-pre")
    axes.set(xlim=(0.0, 4 * run.sigma), ylim=(0.0, None), xlabel="radius of the perturbation (l2)")
    axes.set_ylabel("share of images, right and certified")
    axes.set_title(f"CIFAR-10, sigma = {format_number(run.sigma)}, {run.n:,} noisy copies an image", fontsize=10)
    confidence = [
        Line2D([], [], color=colour, label=f"average score > {format_number(threshold)}")
        for colour, threshold in zip(PALETTE, _SHOWN, strict=False)
    ]
    bounds = [
        Line2D([], [], color="0.35", linestyle=STYLES[line.key], label=label)
        for line, label in ((OURS, "Holdfast"), (PAPER, "the paper's bound"))
    ]
    axes.legend(handles=[*confidence, *bounds], loc="upper right")
    return [write_png(figure, out / "overview.png")]
