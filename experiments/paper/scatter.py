"""Confidence against certified radius: does a large radius mean a confident answer?"""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.agreement import RESAMPLES, Agreement, without_nan
from experiments.paper.confidence import (
    SCORE,
    SOFTMAX,
    Confidence,
    answered,
    column,
    confidences,
    rank_correlations,
)
from experiments.paper.evaluation import ALPHA, Evaluation
from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE
from holdfast.scores.rounding import floor_significant, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (
    *("run", "sigma", "index", "label", "predicted", "label_radius", "score_at_input"),
    *("softmax_of_predicted", "network_prefers", "largest_softmax"),
)


@dataclass(frozen=True)
class Panel:
    """What stands on the vertical axis."""

    key: str
    axis: str
    number: Callable[[Confidence], float]


PANELS = (
    Panel(SOFTMAX, "network: softmax at the input, no noise", lambda confidence: confidence.softmax),
    Panel(SCORE, "smoothed classifier: certified average score", lambda confidence: confidence.answer.score),
)
"""The paper's figure 3 is the first; the second is what the paper certifies instead."""


@dataclass(frozen=True)
class Scatter:
    """The points of one run, and how each confidence orders them next to the radius."""

    run: Evaluation
    points: tuple[Confidence, ...]
    everyone: Agreement
    answered: Agreement

    @classmethod
    def of(cls, run: Evaluation) -> "Scatter":
        """Compute it from a stored run and the softmax beside it."""
        points = confidences(run)
        return cls(run, points, rank_correlations(points), rank_correlations(answered(points)))


def scatter_figure(scatters: Sequence[Scatter]) -> "Figure":
    """The paper's figure 3, a column per run: the network's own softmax above, the average score below."""
    from holdfast.house_figure import HouseFigure

    figure = HouseFigure(figsize=(max(6.6, 4.6 * len(scatters)), 8.0))
    grid = figure.subplots(len(PANELS), len(scatters), sharey=True, squeeze=False)
    for row, panel in zip(grid, PANELS, strict=True):
        for axes, scatter in zip(row, scatters, strict=True):
            _draw(axes, scatter, panel)
        row[0].set_ylabel(panel.axis)
    handles, names = grid[0, 0].get_legend_handles_labels()
    run = scatters[0].run
    title = (
        "All three numbers are about the class that the smoothed classifier predicts "
        f"(n = {run.n:,}, α = {format_number(ALPHA)} each). That class is:"
    )
    figure.legend(
        handles, names, loc="outside lower center", ncols=2, title=title, fontsize=9, title_fontsize=9, edgecolor="none"
    )
    return figure


def write_scatter(runs: Sequence[Evaluation], folder: Path) -> list[Path]:
    """The figure, its points (numbers are cut to four digits, downwards) and the rank correlations."""
    scatters = [Scatter.of(run) for run in runs]
    target = folder / "score_against_radius.csv"
    with target.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for scatter in scatters:
            for point in scatter.points:
                a = point.answer
                radius, score, softmax, largest = (
                    format_number(floor_significant(each, 4))
                    for each in (a.label_radius, a.score, point.softmax, point.largest)
                )
                classes = (a.index, a.label, a.predicted)
                rows.writerow(
                    [scatter.run.name, scatter.run.sigma, *classes, radius, score, softmax, point.preferred, largest]
                )
    return [
        *write_figure(scatter_figure(scatters), folder / "score_against_radius.png"),
        target,
        _write_correlations(scatters, folder / "score_against_radius.json"),
    ]


def _draw(axes: "Axes", scatter: Scatter, panel: Panel) -> None:
    radius = column(scatter.points, lambda point: point.answer.label_radius)
    confidence = column(scatter.points, panel.number)
    for right, colour, marker, name in ((True, PALETTE[0], "o", "right"), (False, PALETTE[1], "x", "wrong")):
        chosen = scatter.run.right == right
        axes.scatter(
            radius[chosen], confidence[chosen], s=16, c=colour, marker=marker, alpha=0.6, label=name, linewidths=1
        )
    rho = scatter.everyone.rho[panel.key]
    axes.set_title(
        f"{scatter.run.heading}\n{len(radius)} inputs, rank correlation {rho}",
        fontsize=9.5,
    )
    axes.set_xlabel("certified radius of the label (ℓ₂)")
    axes.set_xlim(left=-0.02 * float(radius.max() or 1.0))
    axes.set_ylim(-0.02, 1.02)


def _write_correlations(scatters: Sequence[Scatter], target: Path) -> Path:
    document = {
        "what": "Spearman's rank correlation with the certified label radius, 95% bootstrap percentile intervals",
        "resamples": RESAMPLES,
        "less_reference": f"rho less that of the {SCORE}, on the same resamples",
        "answered": "only inputs with a certified label and a certified average score above 0.5, as in published logs",
        "runs": [
            {
                "run": scatter.run.name,
                "sigma": scatter.run.sigma,
                "network": scatter.run.network,
                "network_prefers_another_class": sum(p.preferred != p.answer.predicted for p in scatter.points),
                "all": without_nan(asdict(scatter.everyone)),
                "answered": without_nan(asdict(scatter.answered)),
            }
            for scatter in scatters
        ],
    }
    target.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return target
