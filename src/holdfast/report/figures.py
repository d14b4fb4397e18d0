"""Figures of a report, written as PNG, SVG and PDF files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Method
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.proportions import LEVEL
from holdfast.errors import InvalidArgument, RunError
from holdfast.plotting import PALETTE, draw_curves, draw_label_radius, plain
from holdfast.report.accuracy import Question, measures_of
from holdfast.report.axis import radius_axis
from holdfast.runs.folder import file_stem, write_output
from holdfast.runs.method_names import LABEL_METHOD
from holdfast.runs.plot import (
    colour_handles,
    draw_accuracy,
    frame,
    line_styles,
    method_handles,
    radii_label,
    run_titles,
)
from holdfast.runs.run import Run
from holdfast.runs.store import Entry
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


KINDS = (".png", ".svg", ".pdf")

_LEGEND_INCHES = 2.4
"""What an entry takes."""


def write_figures(runs: Sequence[Run], question: Question, folder: Path) -> list[Path]:
    """One figure per measure, all runs in it; each as PNG, SVG and PDF; returns the files."""
    written = []
    for measure in measures_of(runs):
        having = [run for run in runs if measure in run.measures]
        figure, name = accuracy_figure(having, measure, question), f"certified_accuracy_{file_stem(measure)}"
        written += [save_figure(figure, folder / f"{name}{kind}") for kind in KINDS]
        audited = [run for run in having if run.audit is not None and measure in run.audit.notes.measures]
        if audited:
            figure, name = audit_figure(audited, measure), f"certified_and_attacked_{file_stem(measure)}"
            written += [save_figure(figure, folder / f"{name}{kind}") for kind in KINDS]
    return written


def accuracy_figure(runs: Sequence[Run], measure: str, question: Question) -> "Figure":
    """Certified accuracy against radius: a row per run, a panel per threshold, a colour and a line style per method.

    Between two radii the line has the value of the larger one: no point of it claims more than was certified.
    """
    from matplotlib.patches import Patch

    from holdfast.house_figure import HouseFigure

    if measure == "label":
        figure = HouseFigure(figsize=(5.6, 3.8))
        _draw_labels(figure.subplots(), runs, question)
        return figure
    thresholds = question.thresholds_for(runs[0], measure)
    methods = list(dict.fromkeys(method for run in runs for method in question.methods_for(run, measure)))
    lines = line_styles(methods, thresholds)
    colours: dict[Method | str, str] = dict(zip(methods, PALETTE, strict=False))
    figure = HouseFigure(figsize=(max(5.6, 3.2 * len(thresholds)), 2.6 * len(runs) + 0.9))
    grid = figure.subplots(len(runs), len(thresholds), sharex=True, sharey=True, squeeze=False)
    furthest = 0.0
    for panels, run, title in zip(grid, runs, run_titles(runs), strict=True):
        radii, chosen = _axis(run, runs, question), question.methods_for(run, measure)
        for axes, threshold in zip(panels, thresholds, strict=True):
            reach = 0.0
            for method in chosen:
                drawn = draw_accuracy(
                    axes,
                    run,
                    measure,
                    radii=radii,
                    lines={method: lines[method]},
                    thresholds=(threshold,),
                    interval=LEVEL if method == chosen[0] else None,
                    colours=(colours[method],),
                )
                reach = max(reach, drawn)
            frame(axes, run, radii, reach)
            if reach > 0:  # other panels would stretch the axis
                furthest = max(furthest, axes.get_xlim()[1])
            elif not any(np.any(line.get_ydata()) for line in axes.get_lines()):
                _say_nothing(axes)
            # The row's title stands above its panels' and is as wide as the row: it asks for no room of its own.
            axes.set_title(f"\n{plain(run.measure(measure).title)} > {format_number(threshold)}", fontsize=9.5)
            axes.set_xlabel("")
        panels[0].set_title(title.replace("\n", ", ") + "\n", loc="left", fontsize=9.5).set_in_layout(False)
        panels[0].set_ylabel("certified accuracy")
    for axes in grid[-1]:
        axes.set_xlim(0.0, furthest or 1.0)
        axes.set_xlabel(radii_label(runs))
    band = Patch(
        facecolor=colours[methods[0]],
        alpha=0.15,
        linewidth=0,
        label=f"{100 * LEVEL:g}% interval for other inputs like these",
    )
    figure.legend(
        handles=[*method_handles(lines, colours), band],
        loc="outside lower center",
        ncols=max(1, min(len(lines) + 1, 4, int(figure.get_figwidth() / _LEGEND_INCHES))),
        fontsize=8.5,
        handlelength=2.6,
        edgecolor="none",
    )
    return figure


def _say_nothing(axes: "Axes") -> None:
    """In a panel without a curve: one along the axis would not be seen."""
    for line in axes.get_lines():
        line.set_visible(False)
    axes.text(0.5, 0.5, "nothing certified", transform=axes.transAxes, ha="center", color="0.4", fontsize=9.5)


def audit_figure(runs: Sequence[Run], measure: str) -> "Figure":
    """The band between certificate and attack: averages over the audited inputs against the radius, a panel per run."""
    from holdfast.house_figure import HouseFigure

    figure = HouseFigure(figsize=(max(5.6, 4.6 * len(runs)), 3.8))
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axes, run, title in zip(panels, runs, run_titles(runs), strict=True):
        assert run.audit is not None
        rows = [row for row in run.audit.rows() if row.measure == measure]
        radii = [row.radius for row in rows]
        certified, attacked = [row.certified for row in rows], [row.attacked for row in rows]
        axes.axhline(rows[0].clean, color="0.4", linestyle="--", linewidth=1.2, label="clean")
        axes.plot(radii, attacked, "o-", color=PALETTE[1], markersize=4, label="attacked: no bound is higher")
        axes.plot(radii, certified, "o-", color=PALETTE[0], markersize=4, label="certified: nothing is lower")
        axes.fill_between(radii, certified, attacked, color="0.5", alpha=0.15, linewidth=0)
        axes.set_title(f"{title}\n{rows[0].inputs:,} inputs attacked", fontsize=9.5)
        axes.set_xlim(left=0.0)
        axes.set_xlabel(radii_label([run]))
    panels[0].set_ylabel(f"average {plain(runs[0].measure(measure).title)}, mean over inputs")
    panels[-1].legend(loc="lower left", fontsize=8.5, edgecolor="none")
    return figure


def examples_figure(
    entries: Sequence[Entry], images: Sequence[NDArray[np.float32]], names: Mapping[int, str]
) -> "Figure":
    """A few inputs beside their certified curves."""
    from holdfast.house_figure import HouseFigure

    figure = HouseFigure(figsize=(3.4 * len(entries), 4.6))
    grid = figure.subplots(2, len(entries), squeeze=False, height_ratios=(1, 1.5))
    for column, (entry, image) in enumerate(zip(entries, images, strict=True)):
        certificate = entry.certificate
        top, bottom = grid[0, column], grid[1, column]
        top.imshow(np.moveaxis(image, 0, -1).squeeze(), cmap="gray", vmin=0, vmax=1)
        top.set_axis_off()
        label, predicted = (plain(names.get(k, str(k))) for k in (entry.label, certificate.predicted))
        verdict = "abstains" if certificate.abstained else predicted
        top.set_title(f"{verdict}\n(label: {label})", fontsize=10)
        draw_curves(bottom, certificate.curves, up_to=4 * certificate.noise.scale)
        bottom.set_ylim(*_range(certificate))
        if "label" in certificate.claims:
            draw_label_radius(bottom, certificate.label_radius)
        bottom.set_ylabel("certified average" if column == 0 else "")
    grid[1, 0].legend(loc="lower left", fontsize=8, edgecolor="none")
    return figure


def _range(certificate: Certificate) -> tuple[float, float]:
    """From the lowest to the highest value of any claimed measure, with a little room."""
    supports = [certificate.evidence.measure(name).support for name in certificate.curves]
    low, high = min((low for low, _ in supports), default=0.0), max((high for _, high in supports), default=1.0)
    room = (high - low) / 100
    return low - room, high + room


def check_new_figure(path: Path, option: str) -> None:
    """Refuse a name that says no known kind of figure, or a file that exists, before anything is computed."""
    if path.suffix not in KINDS:
        raise InvalidArgument(f"{option} must be a file that ends in {', '.join(KINDS)}, got {str(path)!r}")
    if path.exists():
        raise RunError(f"{option} {path} exists already; choose a new file")


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a figure as PNG, or as the vector format that the name ends in (.svg, .pdf), in one step."""
    kind = path.suffix.removeprefix(".")
    # The same figure gives the same file, on any day.
    notes = {"svg": {"Creator": "holdfast", "Date": None}, "pdf": {"Creator": "holdfast", "CreationDate": None}}

    def write(file: Path) -> None:
        with _fixed_salt():
            figure.savefig(file, format=kind, dpi=200, metadata=notes.get(kind, {"Software": "holdfast"}))

    return write_output(path, write, replace=True)


@contextmanager
def _fixed_salt() -> Iterator[None]:
    """Names the parts of an SVG file alike every time; no other setting is touched, not even to restore it."""
    from matplotlib import rcParams

    before = rcParams["svg.hashsalt"]
    rcParams["svg.hashsalt"] = "holdfast"
    try:
        yield
    finally:
        rcParams["svg.hashsalt"] = before


def _axis(run: Run, runs: Sequence[Run], question: Question) -> NDArray[np.float64]:
    if run.radii is not None:
        return np.array(run.radii)
    furthest = max(question.radii_for(run)) or 1.0
    return np.array([radius for radius in radius_axis(runs, question) if radius <= furthest] or [0.0, furthest])


def _draw_labels(axes: "Axes", runs: Sequence[Run], question: Question) -> None:
    """All runs in one panel; each line ends where its run's axis does."""
    longest, reach, lines = np.zeros(1), 0.0, line_styles([LABEL_METHOD])
    for colour, run in zip(PALETTE, runs, strict=False):
        radii = _axis(run, runs, question)
        longest = max(longest, radii, key=np.max)
        own = draw_accuracy(axes, run, "label", radii=radii, lines=lines, interval=LEVEL, colours=(colour,))
        reach = max(reach, own)
    frame(axes, runs[0], longest, reach)
    axes.set_xlabel(radii_label(runs))
    axes.set_title("certified label (votes, Clopper-Pearson)", fontsize=10)
    axes.set_ylabel("certified accuracy")
    labels = [title.replace("\n", ", ") for title in run_titles(runs)]
    axes.legend(handles=colour_handles(labels), fontsize=8.5, edgecolor="none")
