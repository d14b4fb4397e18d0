"""Certified accuracy against radius: the paper's main figures, and the appendix's comparison with the best baseline."""

import csv
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.paper.evaluation import (
    ALPHA,
    BASELINE,
    LIMIT,
    LINES,
    NAIVE,
    OURS,
    PAPER,
    RADII,
    THRESHOLDS,
    Evaluation,
    Line,
    in_order,
)
from experiments.paper.png import write_png
from experiments.paper.published import LABEL, SCORE, Published
from holdfast.plotting import PALETTE
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: dict[str, Literal["-", "--", ":", "-."]] = {OURS.key: "-", PAPER.key: "--", NAIVE.key: ":", BASELINE.key: "-."}
"""Line styles say methods, colours say thresholds, in every figure."""
MARKERS = {PAPER.key: "o", NAIVE.key: "v"}
"""Of published points, by the bound they were computed with."""


class Counts:
    """How many inputs each line certifies, by run, measure, threshold and radius; computed once for figures and tables."""

    def __init__(self, runs: Sequence[Evaluation]) -> None:
        self.runs = tuple(in_order(runs))
        self._counts = {
            (run, measure, line.key): run.counts(measure, line, run.radii)
            for run in self.runs
            for measure in THRESHOLDS
            for line in LINES
        }
        self._labels = {run: run.label_counts(run.radii) for run in self.runs}

    def of(self, run: Evaluation, measure: str, line: Line) -> NDArray[np.int64]:
        """Shape (thresholds, radii of the run)."""
        return self._counts[run, measure, line.key]

    def labels(self, run: Evaluation) -> NDArray[np.int64]:
        """By radius of the run."""
        return self._labels[run]

    def at(self, run: Evaluation, values: NDArray[np.int64]) -> list[int]:
        """Of counts by radius of the run, those at the radii of the tables."""
        return [int(each) for each in values[np.searchsorted(run.radii, np.round(RADII, 9))]]


def write_accuracy(counts: Counts, folder: Path) -> list[Path]:
    """Four figures, and one file with the numbers of all."""
    return [
        write_png(accuracy_figure(counts, "score"), folder / "certified_accuracy_score.png"),
        write_png(accuracy_figure(counts, "margin"), folder / "certified_accuracy_margin.png"),
        write_png(baseline_figure(counts), folder / "best_baseline.png"),
        write_png(label_figure(counts), folder / "certified_accuracy_label.png"),
        _write_numbers(counts, folder / "certified_accuracy.csv"),
    ]


def accuracy_figure(counts: Counts, measure: str) -> "Figure":
    """The paper's figures 5 and 6: a panel per network, a colour per threshold, a line style per method.

    Networks that were trained as the paper's are in a row of their own, the first. Points are what was published. Shaded
    is what infinitely many samples could still add to Holdfast's bound.
    """
    from matplotlib.patches import Patch

    from holdfast.house_figure import HouseFigure

    lines = (OURS, PAPER, NAIVE)
    rows = [list(row) for _, row in groupby(counts.runs, key=lambda run: run.plain)]
    columns = max(len(row) for row in rows)
    figure = HouseFigure(figsize=(max(6.6, 4.9 * columns), 3.6 * len(rows) + 0.9))
    grid = figure.subplots(len(rows), columns, sharey=True, squeeze=False)
    for panels, row in zip(grid, rows, strict=True):
        for axes, run in zip(panels, row, strict=False):
            _draw(axes, counts, run, measure, lines)
            _shade(axes, counts, run, measure)
            if measure == "score":
                draw_published(axes, SCORE, run.sigma, THRESHOLDS[measure])
        for axes in panels[len(row) :]:
            axes.remove()
        panels[0].set_ylabel("certified accuracy")
        panels[0].legend(handles=_thresholds(measure), loc="upper right", fontsize=9.5)
    grid[0, 0].set_ylim(0.0, _top(counts, [measure]))
    shade = Patch(facecolor="0.5", alpha=0.3, label="infinitely many samples (not certified)")
    handles = [*_methods(lines), shade, *(published_handles("another network") if measure == "score" else [])]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8.5, handlelength=2.6)
    return figure


def baseline_figure(counts: Counts) -> "Figure":
    """The appendix's figure 7: CDF bounds against the best possible naive bound, a row for score and margin each."""
    from holdfast.house_figure import HouseFigure

    lines = (OURS, PAPER, BASELINE)
    figure = HouseFigure(figsize=(max(6.6, 4.6 * len(counts.runs)), 3.5 * len(THRESHOLDS) + 0.4))
    grid = figure.subplots(len(THRESHOLDS), len(counts.runs), sharey=True, squeeze=False)
    for row, measure in zip(grid, THRESHOLDS, strict=True):
        for axes, run in zip(row, counts.runs, strict=True):
            _draw(axes, counts, run, measure, lines)
        row[0].set_ylabel("certified accuracy")
        row[0].legend(handles=_thresholds(measure), loc="upper right", fontsize=9)
    grid[0, 0].set_ylim(0.0, _top(counts, list(THRESHOLDS)))
    figure.legend(handles=_methods(lines), loc="outside lower center", ncols=3, fontsize=9, handlelength=3)
    return figure


def label_figure(counts: Counts) -> "Figure":
    """Certified labels from the same copies, with Cohen et al.'s published numbers: a panel per sigma, a colour per network."""
    from holdfast.house_figure import HouseFigure

    sigmas = sorted({run.sigma for run in counts.runs})
    figure = HouseFigure(figsize=(max(6.2, 4.9 * len(sigmas)), 4.2))
    panels = figure.subplots(1, len(sigmas), sharey=True, squeeze=False)[0]
    for axes, sigma in zip(panels, sigmas, strict=True):
        runs = [run for run in counts.runs if run.sigma == sigma]
        reach = 0.0
        for colour, run in zip(PALETTE, runs, strict=False):
            held = counts.labels(run)
            shown = slice(None, int(np.count_nonzero(held)) + 1)
            axes.plot(run.radii[shown], held[shown] / len(run), color=colour, drawstyle="steps-pre", label=run.network)
            reach = max(reach, float(run.radii[held > 0].max(initial=0.0)))
        axes.set_xlim(0.0, 1.1 * reach or 1.0)
        said = "published (Cohen et al.; another network)"
        _draw_points(axes, LABEL.get(sigma, ()), marker="o", colour="0.25", label=said)
        axes.set_xlabel("radius of the perturbation (l2)")
        said = f"sigma = {format_number(sigma)}, n = {runs[0].n:,}, alpha = {format_number(ALPHA)}"
        axes.set_title(f"certified label, {said}", fontsize=9.5)
        axes.legend(loc="upper right", fontsize=9)
    panels[0].set_ylim(0.0, 1.0)
    panels[0].set_ylabel("certified accuracy")
    return figure


def _draw(axes: "Axes", counts: Counts, run: Evaluation, measure: str, lines: Sequence[Line]) -> None:
    reach = 0.0
    for line in reversed(lines):
        for colour, values in zip(PALETTE, counts.of(run, measure, line), strict=False):
            shown = slice(None, int(np.count_nonzero(values)) + 1)
            axes.plot(
                run.radii[shown],
                values[shown] / len(run),
                linestyle=STYLES[line.key],
                color=colour,
                drawstyle="steps-pre",
                linewidth=2.0 if line is OURS else 1.5,
            )
            if line.certified:
                reach = max(reach, float(run.radii[values > 0].max(initial=0.0)))
    axes.set_xlim(0.0, min(1.1 * reach, float(run.radii.max())) or 1.0)
    axes.set_xlabel("radius of the perturbation (l2)")
    said = f"{measure}, sigma = {format_number(run.sigma)}, n = {run.n:,}, alpha = {format_number(ALPHA)}"
    axes.set_title(f"{run.network}\n{said}", fontsize=9.5)


def _shade(axes: "Axes", counts: Counts, run: Evaluation, measure: str) -> None:
    both = (counts.of(run, measure, line) / len(run) for line in (OURS, LIMIT))
    for colour, ours, limit in zip(PALETTE, *both, strict=False):
        axes.fill_between(run.radii, ours, limit, step="pre", color=colour, alpha=0.18, linewidth=0)


def _top(counts: Counts, measures: Sequence[str]) -> float:
    """Where the axis ends: a tenth above the largest share."""
    most = max(float(counts.of(run, name, LIMIT).max()) / len(run) for run in counts.runs for name in measures)
    return min(1.0, float(np.ceil(11 * most)) / 10) or 1.0


def _thresholds(measure: str) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, linewidth=3, label=f"{measure} > {format_number(threshold)}")
        for colour, threshold in zip(PALETTE, THRESHOLDS[measure], strict=False)
    ]


def _methods(lines: Sequence[Line]) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color="0.25", linestyle=STYLES[line.key], label=line.title) for line in lines]


def draw_published(axes: "Axes", table: Published, sigma: float, thresholds: Sequence[float]) -> None:
    """Points of the published bounds at a sigma, if there are any, in the colours of their thresholds."""
    for colour, threshold in zip(PALETTE, thresholds, strict=False):
        for key, marker in MARKERS.items():
            _draw_points(axes, table.get((sigma, key, threshold), ()), marker=marker, colour=colour)


def published_handles(words: str) -> "list[Artist]":
    """Legend entries that say what the points are, and in which words they differ from the lines."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], linestyle="", **_point(MARKERS[line.key], "0.25"), label=f"{line.title}, published ({words})")
        for line in (PAPER, NAIVE)
    ]


def _draw_points(axes: "Axes", values: Sequence[float], *, marker: str, colour: str, label: str | None = None) -> None:
    """At the radii of the tables, as far as the axis goes and anything was certified."""
    shown = [
        (radius, value) for radius, value in zip(RADII, values, strict=False) if value and radius <= axes.get_xlim()[1]
    ]
    if shown:
        axes.plot(
            *zip(*shown, strict=True), linestyle="", **_point(marker, colour), label=label, clip_on=False, zorder=4
        )


def _point(marker: str, colour: str) -> dict[str, Any]:
    return {"marker": marker, "color": colour, "markerfacecolor": "white", "markersize": 5.5}


def _write_numbers(counts: Counts, target: Path) -> Path:
    """One row a point of the figures: how many of the inputs, by line."""
    with target.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            ["run", "sigma", "inputs", "measure", "threshold", "radius", *(line.key for line in LINES), "votes"]
        )
        for run in counts.runs:
            head = [run.name, run.sigma, len(run)]
            for measure, thresholds in THRESHOLDS.items():
                for k, threshold in enumerate(thresholds):
                    by_line = np.array([counts.of(run, measure, line)[k] for line in LINES])
                    for radius, values in zip(run.radii.tolist(), by_line.T.tolist(), strict=True):
                        rows.writerow([*head, measure, threshold, format_number(radius), *values, ""])
            for radius, value in zip(run.radii.tolist(), counts.labels(run).tolist(), strict=True):
                rows.writerow([*head, "label", "", format_number(radius), *("" for _ in LINES), value])
    return target
