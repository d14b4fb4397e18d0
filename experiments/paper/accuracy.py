"""Certified accuracy against radius: the paper's main figures, and the appendix's comparison with the best baseline."""

import csv
from collections.abc import Mapping, Sequence
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
from experiments.paper.published import LABEL, SCORE, Published
from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: dict[str, Literal["-", "--", ":", "-."]] = {OURS.key: "-", PAPER.key: "--", NAIVE.key: ":", BASELINE.key: "-."}
COLOURS = dict(zip(STYLES, PALETTE, strict=False))
"""A panel shows one threshold: line styles and colours both say methods."""
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
        *write_figure(accuracy_figure(counts, "score"), folder / "certified_accuracy_score.png"),
        *write_figure(accuracy_figure(counts, "margin"), folder / "certified_accuracy_margin.png"),
        *write_figure(baseline_figure(counts), folder / "best_baseline.png"),
        *write_figure(label_figure(counts), folder / "certified_accuracy_label.png"),
        _write_numbers(counts, folder / "certified_accuracy.csv"),
    ]


def accuracy_figure(counts: Counts, measure: str) -> "Figure":
    """The paper's figures 5 and 6: a row per network, a panel per threshold, a colour and a line style per method.

    Points are what was published. Shaded is what infinitely many samples could still add to Holdfast's bound.
    """
    from matplotlib.patches import Patch

    lines = (OURS, PAPER, NAIVE)
    figure, grid = _panels(counts, [(run, measure) for run in counts.runs], lines)
    handles = _methods(lines)
    for panels, run in zip(grid, counts.runs, strict=True):
        for axes, threshold, *shares in zip(
            panels,
            THRESHOLDS[measure],
            *(counts.of(run, measure, line) / len(run) for line in (OURS, LIMIT)),
            strict=True,
        ):
            axes.fill_between(run.radii, *shares, step="pre", color="0.5", alpha=0.2, linewidth=0)
            if measure == "score":
                draw_published(axes, SCORE, run.sigma, threshold, COLOURS)
    handles.append(Patch(facecolor="0.5", alpha=0.2, label="what infinitely many samples could add (not certified)"))
    if measure == "score":
        handles += published_handles("another network", COLOURS)
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2, fontsize=8.5, handlelength=2.6, edgecolor="none"
    )
    return figure


def baseline_figure(counts: Counts) -> "Figure":
    """The appendix's figure 7: CDF bounds against the best possible naive bound, rows for score and for margin."""
    lines = (OURS, PAPER, BASELINE)
    figure, _ = _panels(counts, [(run, measure) for measure in THRESHOLDS for run in counts.runs], lines)
    figure.legend(
        handles=_methods(lines), loc="outside lower center", ncols=3, fontsize=8.5, handlelength=2.6, edgecolor="none"
    )
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
        axes.set_xlabel("radius of the perturbation (ℓ₂)")
        said = f"σ = {format_number(sigma)}, n = {runs[0].n:,}, α = {format_number(ALPHA)}"
        axes.set_title(f"{runs[0].data}, certified label\n{said}", fontsize=9.5)
        axes.legend(loc="upper right", fontsize=9, edgecolor="none")
    panels[0].set_ylim(0.0, 1.0)
    panels[0].set_ylabel("certified accuracy")
    return figure


def _panels(
    counts: Counts, rows: Sequence[tuple[Evaluation, str]], lines: Sequence[Line]
) -> "tuple[Figure, NDArray[Any]]":
    """A row for each network and measure, under a title of its own, and a panel for each threshold."""
    from holdfast.house_figure import HouseFigure

    columns = max(len(THRESHOLDS[measure]) for _, measure in rows)
    figure = HouseFigure(figsize=(3.2 * columns, 2.5 * len(rows) + 0.9))
    grid = figure.subplots(len(rows), columns, sharey=True, squeeze=False)
    for panels, (run, measure) in zip(grid, rows, strict=True):
        for k, (axes, threshold) in enumerate(zip(panels, THRESHOLDS[measure], strict=True)):
            _draw(axes, run, {line: counts.of(run, measure, line)[k] for line in lines})
            claim = f"{measure} > {format_number(threshold)}"
            if k == columns // 2:
                said = f"{run.heading}, n = {run.n:,}, α = {format_number(ALPHA)}"
                # As wide as the row: it asks for no room of its own; the titles beside it are as high.
                axes.set_title(f"{said}\n{claim}", fontsize=9.5).set_in_layout(False)
            else:
                axes.set_title(f"\n{claim}", fontsize=9.5)
        furthest = max(axes.get_xlim()[1] for axes in panels)
        for axes in panels:
            axes.set_xlim(0.0, furthest)
        panels[0].set_ylabel("certified accuracy")
    for axes in grid[-1]:
        axes.set_xlabel("radius of the perturbation (ℓ₂)")
    grid[0, 0].set_ylim(0.0, _top(counts, sorted({measure for _, measure in rows})))
    return figure, grid


def _draw(axes: "Axes", run: Evaluation, lines: Mapping[Line, NDArray[np.int64]]) -> None:
    """Lines that end where nothing is certified any more."""
    reach = 0.0
    for line, values in reversed([*lines.items()]):
        shown = slice(None, int(np.count_nonzero(values)) + 1)
        axes.plot(
            run.radii[shown],
            values[shown] / len(run),
            linestyle=STYLES[line.key],
            color=COLOURS[line.key],
            drawstyle="steps-pre",
            linewidth=2.0 if line is OURS else 1.5,
        )
        if line.certified:
            reach = max(reach, float(run.radii[values > 0].max(initial=0.0)))
    axes.set_xlim(0.0, min(1.1 * reach, float(run.radii.max())) or 1.0)


def _top(counts: Counts, measures: Sequence[str]) -> float:
    """Where the axis ends: a tenth above the largest share."""
    most = max(float(counts.of(run, name, LIMIT).max()) / len(run) for run in counts.runs for name in measures)
    return min(1.0, float(np.ceil(11 * most)) / 10) or 1.0


def _methods(lines: Sequence[Line]) -> list["Artist"]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=COLOURS[line.key], linewidth=1.8, linestyle=STYLES[line.key], label=line.title)
        for line in lines
    ]


def draw_published(axes: "Axes", table: Published, sigma: float, threshold: float, colours: Mapping[str, str]) -> bool:
    """Points of the published bounds at a sigma and a threshold, in the colours of their bounds; whether there are any."""
    found = {key: table.get((sigma, key, threshold), ()) for key in MARKERS}
    for key, values in found.items():
        _draw_points(axes, values, marker=MARKERS[key], colour=colours[key])
    return any(found.values())


def published_handles(words: str, colours: Mapping[str, str]) -> "list[Artist]":
    """Legend entries that say what the points are, and in which words they differ from the lines."""
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            linestyle="",
            **_point(MARKERS[line.key], colours[line.key]),
            label=f"{line.title}, published ({words})",
        )
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
