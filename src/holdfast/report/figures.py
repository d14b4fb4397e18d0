"""Figures of a report, written as PNG files."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.named import method_named
from holdfast.drawing import PALETTE, draw_curves, house_style
from holdfast.errors import RunError
from holdfast.progress import OnDone, unseen
from holdfast.report.accuracy import Question
from holdfast.report.text import method_title
from holdfast.rounding import shortest
from holdfast.runs.run import Run
from holdfast.runs.store import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
_POINTS = 97
_LONGEST = 40


def write_figures(runs: Sequence[Run], question: Question, folder: Path, *, on_inputs: OnDone = unseen) -> list[Path]:
    """One figure per measure, all runs in it; returns the files."""
    written = []
    for measure in ("score", "margin", "label"):
        having = [run for run in runs if measure in run.measures]
        if having:
            path = folder / f"certified_accuracy_{measure}.png"
            written.append(save_figure(accuracy_figure(having, measure, question, on_inputs=on_inputs), path))
    return written


def accuracy_figure(runs: Sequence[Run], measure: str, question: Question, *, on_inputs: OnDone = unseen) -> "Figure":
    """Certified accuracy against radius: a colour per threshold, a line style per method, a panel per run.

    Between two radii the line has the value of the larger one: no point of it claims more than was certified.
    """
    from matplotlib.figure import Figure

    with house_style():
        if measure == "label":
            figure = Figure(figsize=(5.6, 3.8))
            _draw_labels(figure.subplots(), runs, question)
            return figure
        figure = Figure(figsize=(max(5.6, 4.6 * len(runs)), 4.2))
        panels = np.atleast_1d(figure.subplots(1, len(runs), sharey=True))
        for axes, run in zip(panels.ravel(), runs, strict=True):
            _draw_run(axes, run, measure, question, on_inputs)
        panels.ravel()[0].set_ylabel("certified accuracy")
        _legend(figure, runs, measure, question)
        return figure


def examples_figure(
    entries: Sequence[Entry], images: Sequence[NDArray[np.float32]], names: Mapping[int, str]
) -> "Figure":
    """A few inputs beside their certified curves."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(3.4 * len(entries), 4.6))
        grid = figure.subplots(2, len(entries), squeeze=False, height_ratios=(1, 1.5))
        for column, (entry, image) in enumerate(zip(entries, images, strict=True)):
            certificate = entry.certificate
            top, bottom = grid[0, column], grid[1, column]
            top.imshow(np.moveaxis(image, 0, -1).squeeze(), cmap="gray_r", vmin=0, vmax=1)
            top.set_axis_off()
            verdict = (
                "abstains" if certificate.abstained else names.get(certificate.predicted, str(certificate.predicted))
            )
            top.set_title(f"{verdict}\n(label: {names.get(entry.label, str(entry.label))})", fontsize=10)
            draw_curves(bottom, certificate.curves, up_to=4 * certificate.sigma)
            bottom.set_ylim(-1.02, 1.02)
            if "label" in certificate.claims and certificate.label_radius > 0:
                bottom.axvline(
                    certificate.label_radius, color="0.4", linestyle="--", linewidth=1.0, label="label radius"
                )
            bottom.set_ylabel("certified average" if column == 0 else "")
        grid[1, 0].legend(loc="lower left", fontsize=8)
        return figure


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a figure as PNG, in one step."""
    temporary = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(temporary, format="png", dpi=200, metadata={"Software": "holdfast"})
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RunError(
            f"could not write the figure {path} ({error.strerror}); choose another folder with --figures"
        ) from error
    return path


def _axis(run: Run, question: Question) -> NDArray[np.float64]:
    if run.radii is not None:
        return np.array(run.radii)
    return np.linspace(0.0, max(question.radii_for(run)) or 1.0, _POINTS)


def _draw_run(axes: "Axes", run: Run, measure: str, question: Question, on_inputs: OnDone) -> None:
    radii = _axis(run, question)
    thresholds = question.thresholds_for(measure)
    marker = "o" if run.radii is not None else None
    reach = 0.0
    for method, line in zip(question.methods_for(run, measure), _LINES, strict=False):
        table = run.certified_accuracy(measure, radii=radii, thresholds=thresholds, method=method)
        on_inputs(len(run))
        reach = max(reach, float(radii[table.max(axis=0) > 0].max(initial=0.0)))
        for colour, values in zip(PALETTE, table, strict=False):
            axes.plot(radii, values, line, color=colour, marker=marker, markersize=3, drawstyle="steps-pre")
    _frame(axes, run, radii, reach)


def _draw_labels(axes: "Axes", runs: Sequence[Run], question: Question) -> None:
    for colour, run in zip(PALETTE, runs, strict=False):
        radii = _axis(run, question)
        values = run.certified_accuracy("label", radii=radii)[0]
        axes.plot(radii, values, color=colour, label=_short(run), drawstyle="steps-pre")
        _frame(axes, run, radii, float(radii[values > 0].max(initial=0.0)))
    axes.set_title("certified label (votes, Clopper-Pearson)", fontsize=10)
    axes.set_ylabel("certified accuracy")
    axes.legend()


def _legend(figure: "Figure", runs: Sequence[Run], measure: str, question: Question) -> None:
    """Colours say thresholds and line styles say methods: one row each."""
    from matplotlib.lines import Line2D

    colours = [
        Line2D([], [], color=colour, label=f"{measure} > {shortest(threshold)}")
        for colour, threshold in zip(PALETTE, question.thresholds_for(measure), strict=False)
    ]
    methods = list(dict.fromkeys(method for run in runs for method in question.methods_for(run, measure)))
    lines = [
        Line2D([], [], color="0.35", linestyle=line, label=_described(method))
        for line, method in zip(_LINES, methods, strict=False)
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=8.5, handlelength=2.6)
    figure.axes[-1].legend(handles=colours, loc="upper right", fontsize=8.5)


def _described(method: str) -> str:
    title = method_title(method).rstrip("*")
    return title if method_named(method).guaranteed else f"{title} (not certified)"


def _short(run: Run) -> str:
    return run.path.name if len(run.path.name) <= _LONGEST else f"{run.path.name[: _LONGEST - 3]}..."


def _frame(axes: "Axes", run: Run, radii: NDArray[np.float64], reach: float) -> None:
    """Axes that end a little after the last certified input, and a title that says what was run."""
    said = [str(run.config.get("data") or ""), "" if run.sigma is None else f"sigma = {shortest(run.sigma)}"]
    if "n" in run.config:
        said += [f"n = {run.config['n']:,}", f"alpha = {shortest(run.config['alpha'])}"]
    axes.set_title(f"{_short(run)}\n{', '.join(part for part in said if part)}", fontsize=9.5)
    axes.set_xlim(0.0, min(float(radii.max()), 1.1 * reach or 1.0))
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("radius of the perturbation (l2)")
