"""A run as a table for notebooks and scripts: one row an input."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.bounds import Method
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.run import Run
from holdfast.scores.rounding import format_number


def frame(run: Run, radii: Sequence[float], method: Method | str | None) -> Any:
    """A pandas DataFrame where pandas is installed, else a PyArrow table."""
    table = as_table(run, radii, method)
    return table if find_spec("pandas") is None else table.to_pandas()


def as_table(run: Run, radii: Sequence[float], method: Method | str | None) -> pa.Table:
    """The columns of :meth:`holdfast.Run.to_frame`."""
    given, at = run.answers, np.array(radii, dtype=np.float64)
    columns: dict[str, Any] = {
        "index": given.index,
        "label": given.label,
        "predicted": given.predicted,
        "abstained": given.abstained,
        "correct": run.correct,
    }
    if "label" in run.measures:
        columns["label_radius"] = pa.array(run.label_radius, mask=run.label_radius < 0)
    for measure in run.measures:
        if measure == "label":
            continue
        chosen = run.methods(measure)[0] if method is None else method
        bounds = {"lower": run.lower(measure, chosen, at)}
        if isinstance(run, CertifiedRun) and run.config["sides"] == "both":
            bounds["upper"] = run.upper(measure, chosen, at)
        for side, values in bounds.items():
            for radius, column in zip(radii, values.T, strict=True):
                columns[f"{measure}_{side}_at_{format_number(radius)}"] = column
    return pa.table(columns)
