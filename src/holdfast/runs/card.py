"""A run as a notebook shows it: what was certified, and certified accuracy against the radius."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.notebook import POINTS, Chart, Line, card
from holdfast.runs.method_names import guaranteed
from holdfast.runs.plot import radii_label
from holdfast.scores.rounding import floor_decimals, format_number

if TYPE_CHECKING:
    from holdfast.runs.run import Run

_LINES = 4
_MANY = 1_000
"""Inputs whose scores are bounded while somebody waits for a cell; of more, the label's radii are drawn, which cost nothing."""


def run_card(run: "Run") -> str:
    """The run's own bound for its first measure; between two radii a line has the value of the larger one."""
    said = [f"Run {run.path.name}: {len(run):,} input{'' if len(run) == 1 else 's'}"]
    data = str(run.config.get("data") or run.path.name)
    said += [data] if data != run.path.name else []
    said += [] if run.noise is None else [run.noise.title]
    if "n" in run.config:
        said.append(f"n = {run.config['n']:,}, alpha = {format_number(run.config['alpha'])}")
    sentence = ", ".join(said) + ("" if run.status == "complete" else f" ({run.status})")
    if len(run) == 0:
        return card(f"{sentence}.")
    quick = run.measures if len(run) <= _MANY else tuple(each for each in run.measures if each == "label")
    if not quick:
        return card(f"{sentence}.")
    measure = next((each for each in quick if each != "label"), "label")
    thresholds = () if measure == "label" else run.thresholds(measure)[:_LINES]
    if run.radii is not None:
        radii = np.array(run.radii)
    else:
        furthest = float(run.label_radius.max(initial=1.0)) if run.noise is None else 4 * run.noise.scale
        radii = np.linspace(0.0, furthest, POINTS)
    if radii[-1] <= radii[0]:
        return card(f"{sentence}.")
    table = run.certified_accuracy(measure, radii=radii, thresholds=thresholds)
    sure = guaranteed(run.methods(measure)[0])
    kind = "" if sure else " (estimate, not certified)"
    names = [f"{run.measure(measure).title} > {format_number(each)}{kind}" for each in thresholds] or ["label"]
    chart = Chart(
        [_steps(name, radii, values, dotted=not sure) for name, values in zip(names, table, strict=True)],
        x_label=radii_label([run]),
        y_label="certified accuracy",
        x_range=(float(radii[0]), float(radii[-1])),
    )
    right = floor_decimals(100 * float(run.correct.mean()), 1)
    return card(f"{sentence}. The answer is right for {right}% of them.", chart)


def _steps(name: str, radii: NDArray[np.float64], values: NDArray[np.float64], *, dotted: bool) -> Line:
    """Steps that end where nothing is certified any more."""
    shown = int(np.count_nonzero(values)) + 1
    return Line(name, np.repeat(radii[:shown], 2)[:-1], np.repeat(values[:shown], 2)[1:], dotted=dotted)
