"""A log of the paper's code or of Cohen et al.'s, imported: bounds at the radii it lists, and nothing in between."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.certificates.certificate import Certificate
from holdfast.errors import InvalidArgument, RunError
from holdfast.runs.folder import RunFolder
from holdfast.runs.method_names import LABEL_METHOD
from holdfast.runs.run import Answers, Run
from holdfast.runs.tsv import COHEN_COLUMNS, PAPER_COLUMNS, PAPER_RADII, Log, LogRow, read_log
from holdfast.validation import check_sigma

_TABLE = "imported.parquet"
_METHODS = {"cdf-dkw": "exp_cdf_", "naive-hoeffding": "exp_"}


def import_log(source: Path, out: Path, *, measure: str | None = None, sigma: float | None = None) -> "ImportedRun":
    """Read a log and keep it as a run; ``measure`` and ``sigma`` are taken from the file's name if not given."""
    log = read_log(source)
    if measure not in (None, "score", "margin"):
        raise InvalidArgument(f"measure must be score or margin, got {measure!r}")
    if measure is not None and log.is_cohen:
        raise InvalidArgument(f"{source} is a log of label radii; it has no {measure}")
    if measure == "score" and any(min(row.numbers) < 0 for row in log.rows):
        raise InvalidArgument(f"{source} holds negative bounds, so it is a log of margins, not of scores")
    config: dict[str, Any] = {
        "kind": "imported",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": source.name,
        "columns": list(log.columns),
        "measure": "label" if log.is_cohen else measure or _guess_measure(source, log),
        "sigma": check_sigma(sigma) if sigma is not None else _guess_sigma(source),
    }
    columns: dict[str, list[Any]] = {
        "idx": [row.index for row in log.rows],
        "label": [row.label for row in log.rows],
        "predict": [row.predicted for row in log.rows],
        **{name: [row.numbers[k] for row in log.rows] for k, name in enumerate(log.columns[3:-2])},
        "correct": [row.correct for row in log.rows],
        "time": [row.seconds for row in log.rows],
    }
    table = pa.table(columns)
    RunFolder.refuse(out)
    RunFolder.check_room(out, bytes_needed=200 * len(log.rows))
    folder = RunFolder.create(out, config)
    folder.write(_TABLE, lambda path: pq.write_table(table, path, compression="zstd"))
    return ImportedRun(folder)


class ImportedRun(Run):
    """Published bounds at the paper's seven radii, or label radii."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._folder = folder

    @cached_property
    def log(self) -> Log:
        """The log as it was imported."""
        path = self._folder.path / _TABLE
        try:
            rows = pq.read_table(path).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise RunError(f"{path} cannot be read ({error}); import the log again") from error
        columns = COHEN_COLUMNS if self.config["measure"] == "label" else PAPER_COLUMNS
        return Log(
            columns,
            [
                LogRow(
                    index=row["idx"],
                    label=row["label"],
                    predicted=row["predict"],
                    numbers=tuple(row[name] for name in columns[3:-2]),
                    correct=row["correct"],
                    seconds=row["time"],
                )
                for row in rows
            ],
        )

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """A log has bounds, and no samples to compute others from."""
        raise RunError(
            f"{self.path} is an imported log: lower bounds at a few radii, without the samples that upper bounds need; "
            f"triage takes a run of 'holdfast certify'"
        )

    @property
    def measures(self) -> tuple[str, ...]:
        """The one the log is about."""
        return (str(self.config["measure"]),)

    def methods(self, measure: str) -> tuple[str, ...]:
        """The log's columns."""
        return (LABEL_METHOD,) if measure == "label" else tuple(_METHODS)

    @cached_property
    def answers(self) -> Answers:
        """As the log says; class -1 is an abstention."""
        rows = self.log.rows
        predicted = np.array([row.predicted for row in rows], dtype=np.int64)
        return Answers(
            np.array([row.index for row in rows], dtype=np.int64),
            np.array([row.label for row in rows], dtype=np.int64),
            predicted,
            predicted < 0,
        )

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """As the log says."""
        return np.array([row.correct for row in self.log.rows], dtype=np.bool_)

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The paper's seven; any, for label radii."""
        return None if self.log.is_cohen else PAPER_RADII

    @property
    def label_radius(self) -> NDArray[np.float64]:
        """The log's radius; an abstention has none, written as -1 so that it never counts."""
        if not self.log.is_cohen:
            raise InvalidArgument(f"{self.path} is a log of {self.measures[0]} bounds; it has no label radii")
        return np.array([row.numbers[0] if row.predicted >= 0 else -1.0 for row in self.log.rows], dtype=np.float64)

    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The log's numbers; only at its own radii."""
        if method not in _METHODS:
            raise InvalidArgument(f"{self.path} has the methods {', '.join(_METHODS)}, got {method!r}")
        unknown = [radius for radius in radii.tolist() if radius not in PAPER_RADII]
        if unknown:
            raise InvalidArgument(
                f"{self.path} knows the radii {', '.join(f'{r:g}' for r in PAPER_RADII)} only, got {', '.join(f'{r:g}' for r in unknown)}"
            )
        first = 0 if method == "cdf-dkw" else len(PAPER_RADII)
        where = [first + PAPER_RADII.index(radius) for radius in radii.tolist()]
        return np.array([[row.numbers[k] for k in where] for row in self.log.rows], dtype=np.float64)


def _guess_measure(source: Path, log: Log) -> str:
    if "margin" in source.name.lower():
        return "margin"
    return "margin" if any(min(row.numbers) < 0 for row in log.rows) else "score"


def _guess_sigma(source: Path) -> float | None:
    match = re.search(r"(?:sigma|noise)[_=]?(\d*\.\d+|\d+)", source.name.lower())
    return float(match.group(1)) if match else None
