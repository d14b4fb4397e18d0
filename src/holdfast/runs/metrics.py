"""Certified accuracy as plain numbers by name, for MLflow, Weights & Biases, or whatever takes a dictionary."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from holdfast.runs.run import Run


def metric_name(measure: str, threshold: float | None, radius: float) -> str:
    """``certified_accuracy/score_above_0.5/radius_0.25``: of characters that MLflow and Weights & Biases both accept."""
    above = "" if threshold is None else f"_above_{format_number(threshold)}"
    return f"certified_accuracy/{measure}{above}/radius_{format_number(radius)}"


def usual_radii(run: "Run") -> tuple[float, ...]:
    """The only radii a run knows, or multiples of the noise's scale up to four."""
    if run.radii is not None:
        return run.radii
    step = 0.25 if run.noise is None else run.noise.scale
    return tuple(round(k * step, 6) for k in range(5))


def metrics(
    run: "Run", *, radii: Sequence[float] | None = None, thresholds: Sequence[float] | None = None
) -> dict[str, float]:
    """What :meth:`Run.metrics` returns."""
    at = usual_radii(run) if radii is None else tuple(radii)
    found = {"certified_inputs": float(len(run)), "smoothed_accuracy": float(run.correct.mean())}
    for measure in run.measures:
        above: Sequence[float | None] = (None,)
        if measure != "label":
            above = run.thresholds(measure) if thresholds is None else tuple(thresholds)
        table = run.certified_accuracy(measure, radii=at, thresholds=() if above == (None,) else above)  # type: ignore[arg-type]
        for threshold, values in zip(above, table.tolist(), strict=True):
            found |= {metric_name(measure, threshold, radius): value for radius, value in zip(at, values, strict=True)}
    return found
