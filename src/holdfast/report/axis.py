"""The radii of a report: one axis for all its runs, so that a slider means the same everywhere."""

import math
from collections.abc import Sequence
from decimal import Decimal

from holdfast.report.accuracy import Question
from holdfast.runs.run import Run

_MOST = 97
_FAR = 4
"""Radii asked for beyond so many times where the runs end are points of their own: steps as coarse as these would hide the rest."""
_STEPS = tuple(Decimal(step) for step in ("1", "1.25", "2.5", "5"))


def radius_axis(runs: Sequence[Run], question: Question) -> tuple[float, ...]:
    """Round steps up to four times the noise's scale (or further, if asked), with every radius asked for, known or attacked at."""
    named = {0.0}
    for run in runs:
        named.update(question.radii_for(run))
        named.update(run.radii or ())
        named.update(() if run.noise is None else (run.noise.scale,))
        named.update(() if run.audit is None else run.audit.notes.radii)
    furthest = chart_end(runs, tuple(named))
    step = _round_step(furthest)
    count = math.ceil(Decimal(repr(furthest)) / step)
    return tuple(sorted(named | {float(step * k) for k in range(count + 1)}))


def chart_end(runs: Sequence[Run], radii: Sequence[float]) -> float:
    """Where charts end: at the last radius, but for those that are far beyond where the runs end."""
    theirs = max(_furthest(run) for run in runs)
    return max(theirs, *(radius for radius in radii if not 0 < _FAR * theirs < radius))


def _furthest(run: Run) -> float:
    """Four times the noise's scale, or the largest radius a log lists."""
    if run.config["kind"] == "imported" and run.radii is None:
        return float(run.label_radius.max(initial=1.0))
    return 0.0 if run.noise is None else round(4 * run.noise.scale, 6)


def _round_step(furthest: float) -> Decimal:
    """The smallest of 1, 1.25, 2.5 and 5 times a power of ten that takes few enough steps."""
    scale = Decimal(1).scaleb(math.floor(math.log10(furthest / _MOST)) if furthest > 0 else 0)
    return next(
        scale * step
        for step in (*_STEPS, *(10 * step for step in _STEPS))
        if furthest <= float(scale * step) * (_MOST - 1)
    )
