"""Certified accuracy against radius: the paper's main figures, and the appendix's comparison with the best baseline."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
)
from experiments.paper.png import write_png
from experiments.paper.published import LABEL
from holdfast.plotting import PALETTE, house_style
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: dict[str, Literal["-", "--", ":", "-."]] = {OURS.key: "-", PAPER.key: "--", NAIVE.key: ":", BASELINE.key: "-."}
"""Line styles say methods, colours say thresholds, in every figure."""


class Counts:
    """How many inputs each line certifies, by run, measure, threshold and radius; computed once for figures and tables."""

    def __init__(self, runs: Sequence[Evaluation]) -> None:
        self.runs = tuple(sorted(runs, key=lambda run: run.sigma))
        self._counts = {
            (run.sigma, measure, line.key): run.counts(measure, line, run.radii)
            for run in self.runs
            for measure in THRESHOLDS
            for line in LINES
        }
        self._labels = {run.sigma: run.label_counts(run.radii) for run in self.runs}

    def of(self, run: Evaluation, measure: str, line: Line) -> NDArray[np.int64]:
        """Shape (thresholds, radii of the run)."""
        return self._counts[run.sigma, measure, line.key]

    def labels(self, run: Evaluation) -> NDArray[np.int64]:
        """By radius of the run."""
        return self._labels[run.sigma]

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
    """The paper's figures 5 and 6: a panel per sigma, a colour per threshold, a line style per method.

    Shaded is what infinitely many samples could still add to Holdfast's bound.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    lines = (OURS, PAPER, NAIVE)
    with house_style():
        figure = Figure(figsize=(max(6.6, 4.9 * len(counts.runs)), 4.5))
        panels = figure.subplots(1, len(counts.runs), sharey=True, squeeze=False)[0]
        for axes, run in zip(panels, counts.runs, strict=True):
            _draw(axes, counts, run, measure, lines)
            for colour, limit, ours in zip(
                PALETTE, counts.of(run, measure, LIMIT), counts.of(run, measure, OURS), strict=False
            ):
                axes.fill_between(
                    run.radii, ours / len(run), limit / len(run), step="pre", color=colour, alpha=0.18, linewidth=0
                )
        panels[0].set_ylabel("certified accuracy")
        panels[0].set_ylim(0.0, _top(counts, [measure]))
        shade = Patch(facecolor="0.5", alpha=0.3, label="infinitely many samples (not certified)")
        _legends(figure, measure, lines, [shade])
        return figure


def baseline_figure(counts: Counts) -> "Figure":
    """The appendix's figure 7: CDF bounds against the best possible naive bound, score and margin, a row per sigma."""
    from matplotlib.figure import Figure

    lines = (OURS, PAPER, BASELINE)
    with house_style():
        figure = Figure(figsize=(9.8, 3.4 * len(counts.runs) + 0.6))
        grid = figure.subplots(len(counts.runs), len(THRESHOLDS), sharey=True, squeeze=False)
        for row, run in zip(grid, counts.runs, strict=True):
            for axes, measure in zip(row, THRESHOLDS, strict=True):
                _draw(axes, counts, run, measure, lines)
                axes.set_title(f"{measure}, {axes.get_title()}", fontsize=10)
                axes.legend(handles=_thresholds(measure), loc="upper right", fontsize=9)
            row[0].set_ylabel("certified accuracy")
        grid[0, 0].set_ylim(0.0, _top(counts, list(THRESHOLDS)))
        figure.legend(handles=_methods(lines), loc="outside lower center", ncols=3, fontsize=9, handlelength=3)
        return figure


def label_figure(counts: Counts) -> "Figure":
    """Certified labels from the same copies, with Cohen et al.'s published numbers."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(6.2, 4.2))
        axes = figure.subplots()
        for colour, run in zip(PALETTE, counts.runs, strict=False):
            name = f"sigma = {format_number(run.sigma)}"
            held = counts.labels(run)
            shown = slice(None, int(np.count_nonzero(held)) + 1)
            axes.plot(run.radii[shown], held[shown] / len(run), color=colour, drawstyle="steps-pre", label=name)
            if run.sigma in LABEL:
                said = f"{name}, published (Cohen et al.)"
                axes.plot(
                    RADII, LABEL[run.sigma], "o", color=colour, markerfacecolor="white", label=said, clip_on=False
                )
        reach = max(float(run.radii[counts.labels(run) > 0].max(initial=RADII[-1])) for run in counts.runs)
        axes.set_xlim(0.0, 1.1 * reach)
        axes.set_ylim(0.0, 1.0)
        axes.set_xlabel("radius of the perturbation (l2)")
        axes.set_ylabel("certified accuracy")
        axes.set_title(f"certified label, alpha = {format_number(ALPHA)}, n = {counts.runs[0].n:,}", fontsize=10)
        axes.legend(loc="upper right", fontsize=9)
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
    axes.set_title(f"sigma = {format_number(run.sigma)}, n = {run.n:,}, alpha = {format_number(ALPHA)}", fontsize=10)


def _top(counts: Counts, measures: Sequence[str]) -> float:
    """Where the axis ends: a tenth above the largest share."""
    most = max(float(counts.of(run, name, LIMIT).max()) / len(run) for run in counts.runs for name in measures)
    return min(1.0, float(np.ceil(11 * most)) / 10) or 1.0


def _legends(figure: "Figure", measure: str, lines: Sequence[Line], more: Sequence["Artist"]) -> None:
    figure.axes[-1].legend(handles=_thresholds(measure), loc="upper right", fontsize=9.5)
    figure.legend(
        handles=[*_methods(lines), *more], loc="outside lower center", ncols=2, fontsize=8.5, handlelength=2.6
    )


def _thresholds(measure: str) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, linewidth=3, label=f"{measure} > {format_number(threshold)}")
        for colour, threshold in zip(PALETTE, THRESHOLDS[measure], strict=False)
    ]


def _methods(lines: Sequence[Line]) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color="0.25", linestyle=STYLES[line.key], label=line.title) for line in lines]


def _write_numbers(counts: Counts, target: Path) -> Path:
    """One row a point of the figures: how many of the inputs, by line."""
    with target.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["sigma", "inputs", "measure", "threshold", "radius", *(line.key for line in LINES), "votes"])
        for run in counts.runs:
            for measure, thresholds in THRESHOLDS.items():
                for k, threshold in enumerate(thresholds):
                    by_line = np.array([counts.of(run, measure, line)[k] for line in LINES])
                    for radius, values in zip(run.radii.tolist(), by_line.T.tolist(), strict=True):
                        rows.writerow([run.sigma, len(run), measure, threshold, format_number(radius), *values, ""])
            for radius, value in zip(run.radii.tolist(), counts.labels(run).tolist(), strict=True):
                rows.writerow([run.sigma, len(run), "label", "", format_number(radius), *("" for _ in LINES), value])
    return target
