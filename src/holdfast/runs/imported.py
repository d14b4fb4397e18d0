"""A log of the paper's code or of Cohen et al.'s, imported: bounds at the radii it lists, and nothing in between."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.certificates.certificate import Certificate
from holdfast.errors import InvalidArgument, RunError, reading
from holdfast.measures import MeasureInfo, measure_named
from holdfast.noise import Noise, as_noise, noise_fields
from holdfast.progress import ignore
from holdfast.runs.folder import FORMAT, RunFolder, file_stem, now
from holdfast.runs.method_names import LABEL_METHOD
from holdfast.runs.parquet import read_parquet
from holdfast.runs.run import Answers, Run
from holdfast.runs.tsv import COHEN_COLUMNS, PAPER_RADII, check_log, log_lines, log_numbers, parse_log, read_log
from holdfast.scores.rounding import floor_significant

_TABLE = "imported.parquet"
_METHODS = ("cdf-dkw", "naive-hoeffding")
"""Of the log's columns, in their order."""


def import_log(
    source: Path,
    out: Path,
    *,
    measure: str | MeasureInfo | None = None,
    sigma: float | None = None,
    noise: Noise | None = None,
    say: Callable[[str], None] = ignore,
) -> "ImportedRun":
    """Read a log and keep it as a run; measure and noise are taken from the file's name if they are not given.

    A measure of your own is given by its description (``measure.info``). ``sigma=s`` is short for ``noise=Gaussian(s)``.
    """
    log = read_log(source)
    config: dict[str, Any] = {
        "kind": "imported",
        "created": now(),
        "source": source.name,
        "columns": log.column_names,
        "measure": "label",
        "sigma": None,
    }
    if tuple(log.column_names) == COHEN_COLUMNS:
        if measure not in (None, "label"):
            raise InvalidArgument(f"{source} is a log of label radii; it has no {measure}")
    else:
        info = _measure(source, log, measure)
        config.update({"measure": info.name, "measures": [info.to_dict()]})
    if noise is None and sigma is None:
        sigma = _guess_sigma(source)
    if noise is not None or sigma is not None:
        config.update(noise_fields(as_noise(noise, sigma)))
    if RunFolder.holds_run(out) and isinstance(there := Run.open(out), ImportedRun) and there.holds(config, log):
        say(f"complete: {out} holds this log already")
        return there
    RunFolder.refuse(out)
    RunFolder.check_place(out)
    RunFolder.check_room(out, bytes_needed=200 * len(log))
    with RunFolder.whole(out) as folder:
        folder.write(_TABLE, lambda path: pq.write_table(log, path, compression="zstd", write_page_checksum=True))
        folder.seal({"format": FORMAT, **config})
    return ImportedRun(RunFolder(out))


def _measure(source: Path, log: pa.Table, measure: str | MeasureInfo | None) -> MeasureInfo:
    """What a log of bounds is about; refused if its numbers cannot be that."""
    if measure == "label":
        raise InvalidArgument(f"{source} has no label radii: it is a log of bounds, not of label radii")
    numbers = log_numbers(log)
    if measure is None:
        measure = _named(source.name.lower()) or ("margin" if numbers.min() < 0 else "score")
    info = measure_named(measure).info if isinstance(measure, str) else measure
    low, high = info.support
    if numbers.min() < floor_significant(low, 3) or numbers.max() > high:
        raise InvalidArgument(
            f"{source} holds bounds outside [{low:g}, {high:g}], so it is no log of the {info.name}; name another measure"
        )
    return info


def _named(name: str) -> str | None:
    """The measure that a file's name names: as 'holdfast export' writes it, or as people do."""
    exported = re.fullmatch(r"paper_([a-z0-9_-]+)\.tsv", name)
    if exported is None:
        said = re.search(r"margin|mass(?:-\d+)+", name)
        return None if said is None else said[0]
    if file_stem(exported[1]) != exported[1]:
        raise InvalidArgument(f"the name of the measure is cut in {name}; name it whole (--measure)")
    return exported[1]


def _guess_sigma(source: Path) -> float | None:
    match = re.search(r"(?:sigma|noise)[_=]?(\d*\.\d+|\d+)", source.name.lower())
    # No noise is none: noise_0.tsv is the first of several logs, or one of unknown noise.
    return float(match.group(1)) or None if match else None


class ImportedRun(Run):
    """Published bounds at the paper's seven radii, or label radii."""

    @cached_property
    def log(self) -> pa.Table:
        """The log as it was imported."""
        path = self.path / _TABLE
        with reading(path, RunError, "cannot be read", remedy="import the log again"):
            return check_log(path, read_parquet(path))

    def holds(self, config: Mapping[str, Any], log: pa.Table) -> bool:
        """Whether this is what came of importing the same log in the same way."""
        same = {name: value for name, value in self.config.items() if name not in ("created", "format", "sealed")}
        asked = {name: value for name, value in config.items() if name != "created"}
        return same == json.loads(json.dumps(asked)) and bool(self.log.equals(log))

    def check(self) -> Iterator[str]:
        """What in the log cannot be, in words."""
        if self.log.column_names != self.config["columns"]:
            yield f"{_TABLE} has other columns than run.json says: {', '.join(self.log.column_names)}"
        again = parse_log(self.path / _TABLE, list(log_lines(self.log)))
        if [field.type for field in again.schema] != [field.type for field in self.log.schema]:
            yield f"{_TABLE} has columns of other types than a log: {self.log.schema}"
        if (self.radii is None) != (tuple(self.log.column_names) == COHEN_COLUMNS):
            yield f"run.json says that the log is of the {self.measures[0]}, which it is not"
        elif self.radii is not None:
            _measure(self.path / _TABLE, self.log, self.measure(self.measures[0]))

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """A log has bounds, and no samples to compute others from."""
        raise InvalidArgument(
            f"{self.path} is an imported log: lower bounds at a few radii, without the samples that upper bounds need; "
            f"triage takes a run of 'holdfast certify'"
        )

    @property
    def measures(self) -> tuple[str, ...]:
        """The one the log is about."""
        return (str(self.config["measure"]),)

    def methods(self, measure: str) -> tuple[str, ...]:
        """The log's columns."""
        return (LABEL_METHOD,) if measure == "label" else _METHODS

    @cached_property
    def answers(self) -> Answers:
        """As the log says; class -1 is an abstention."""
        index, label, predicted = (self.log.column(name).to_numpy() for name in ("idx", "label", "predict"))
        return Answers(index, label, predicted, predicted < 0)

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The paper's seven; any, for label radii."""
        return None if self.measures == ("label",) else PAPER_RADII

    @property
    def label_radius(self) -> NDArray[np.float64]:
        """The log's radius; an abstention has none, written as -1 so that it never counts."""
        if self.radii is not None:
            raise InvalidArgument(f"{self.path} is a log of {self.measures[0]} bounds; it has no label radii")
        return np.where(self.answers.abstained, -1.0, self.log.column("radius").to_numpy())

    def _lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The log's numbers; only at its own radii."""
        if method not in _METHODS:
            raise InvalidArgument(f"{self.path} has the methods {', '.join(_METHODS)}, got {method!r}")
        unknown = [radius for radius in radii.tolist() if radius not in PAPER_RADII]
        if unknown:
            raise InvalidArgument(
                f"{self.path} knows the radii {', '.join(f'{r:g}' for r in PAPER_RADII)} only, got {', '.join(f'{r:g}' for r in unknown)}"
            )
        first = len(PAPER_RADII) * _METHODS.index(method)
        return log_numbers(self.log)[:, [first + PAPER_RADII.index(radius) for radius in radii.tolist()]]

    def _export(self, measure: str) -> pa.Table:  # noqa: ARG002
        return self.log
