"""Certified accuracy as plain numbers by name, for MLflow, Weights & Biases, or whatever takes a dictionary."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from holdfast.errors import InvalidArgument
from holdfast.runs.method_names import guaranteed
from holdfast.scores.rounding import format_number
from holdfast.validation import check_radii

if TYPE_CHECKING:
    from holdfast.runs.run import Run


def metric_name(measure: str, threshold: float | None, radius: float) -> str:
    """``certified_accuracy/score_above_0.5/radius_0.25``: of characters that MLflow and Weights & Biases both accept."""
    above = "" if threshold is None else f"_above_{format_number(threshold)}"
    return f"certified_accuracy/{measure}{above}/radius_{format_number(radius)}"


def metrics(run: "Run", *, radii: ArrayLike | None = None, thresholds: ArrayLike | None = None) -> dict[str, float]:
    """What :meth:`Run.metrics` returns."""
    at = run.usual_radii if radii is None else check_radii(radii).ravel().tolist()
    found = {"certified_inputs": float(len(run)), "smoothed_accuracy": float(run.correct.mean())}
    for measure in run.measures:
        above: list[float | None] = [None]
        if measure != "label":
            if not guaranteed(own := run.methods(measure)[0]):
                raise InvalidArgument(
                    f"{run.path} has bounds by {own}, which gives estimates and certifies nothing; "
                    f"run.certified_accuracy(measure, radii=..., thresholds=..., method=...) counts by another method"
                )
            above = list(np.ravel(run.thresholds(measure) if thresholds is None else thresholds).tolist())
        table = run.certified_accuracy(measure, radii=at, thresholds=[each for each in above if each is not None])
        for threshold, values in zip(above, table.tolist(), strict=True):
            found |= {metric_name(measure, threshold, radius): value for radius, value in zip(at, values, strict=True)}
    return found
