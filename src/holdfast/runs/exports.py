"""A run as the logs that other people's scripts read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument
from holdfast.runs.certified import BASELINE, CertifiedRun
from holdfast.runs.folder import file_stem
from holdfast.runs.imported import ImportedRun
from holdfast.runs.run import Run
from holdfast.runs.tsv import COHEN_COLUMNS, PAPER_COLUMNS, PAPER_RADII, Log, LogRow


def export_name(measure: str) -> str:
    """Where a run keeps the log of a measure, in its folder."""
    return "exports/cohen.tsv" if measure == "label" else f"exports/paper_{file_stem(measure)}.tsv"


def export_log(run: Run, measure: str) -> Log:
    """Cohen et al.'s log for ``label``; the paper's for any measure."""
    if measure not in run.measures:
        raise InvalidArgument(f"{run.path} has no {measure!r} to export; it has: {', '.join(run.measures)}")
    if len(run) == 0:
        raise InvalidArgument(f"{run.path} holds no finished certificates yet; there is nothing to export")
    if isinstance(run, ImportedRun):
        return run.log
    assert isinstance(run, CertifiedRun)
    stored = run.columns(["index", "label", "predicted", "abstained", "seconds"])
    if measure == "label":
        radii = run.label_radius
        numbers = np.maximum(radii, 0.0)[:, None]
        return Log(COHEN_COLUMNS, _Rows(stored, numbers, radii < 0))
    at = np.array(PAPER_RADII)
    own = run.lower(measure, run.methods(measure)[0], at)
    baseline = run.lower(measure, BASELINE, at)
    return Log(PAPER_COLUMNS, _Rows(stored, np.hstack((own, baseline)), stored["abstained"].astype(bool)))


@dataclass(frozen=True, eq=False)
class _Rows(Sequence[LogRow]):
    """The rows of a log, each made when it is asked for: a hundred thousand of them are a few arrays."""

    stored: dict[str, NDArray[Any]]
    numbers: NDArray[np.float64]
    abstained: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, position: int) -> LogRow: ...
    @overload
    def __getitem__(self, position: slice) -> list[LogRow]: ...
    def __getitem__(self, position: int | slice) -> LogRow | list[LogRow]:
        if isinstance(position, slice):
            return [self[each] for each in range(len(self))[position]]
        index, label, predicted = (int(self.stored[name][position]) for name in ("index", "label", "predicted"))
        answer = -1 if self.abstained[position] else predicted
        numbers = tuple(self.numbers[position].tolist())
        return LogRow(index, label, answer, numbers, answer == label, float(self.stored["seconds"][position]))
