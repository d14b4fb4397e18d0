"""The two tab-separated logs the field reads: Cohen et al.'s and the paper's.

Lower bounds and radii are written with three significant digits, rounded **down**; the logs' authors rounded to nearest.
A certificate that abstains is written with class -1, and keeps its bounds. In memory, a log is a table with these columns.
What Holdfast writes has further columns to the right, the same in every row, which other readers ignore: its :class:`LogOrigin`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from holdfast.budgets import read_text
from holdfast.errors import InvalidArgument, RunError, reading
from holdfast.noise import noise_named, noise_text
from holdfast.runs.folder import file_stem, recorded_noise
from holdfast.runs.manifest import CONFIG
from holdfast.runs.method_names import guaranteed
from holdfast.scores.rounding import floor_significant
from holdfast.validation import check_alpha, check_count, check_sides

PAPER_RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_SUFFIXES = ("00", "25", "50", "75", "100", "125", "150")
COHEN_COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
PAPER_COLUMNS = (
    "idx",
    "label",
    "predict",
    *(f"exp_cdf_{suffix}" for suffix in _SUFFIXES),
    *(f"exp_{suffix}" for suffix in _SUFFIXES),
    "correct",
    "time",
)
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+):(\d{2}):(\d{2}(?:\.\d+)?)")
_ROWS = 1_000
_LONGEST = 1e10
"""Seconds: three hundred years."""
_ORIGIN = b"holdfast.origin"


@dataclass(frozen=True)
class LogOrigin:
    """What the bounds of a log are, which its own columns do not say; each attribute is a column of its own.

    Attributes:
        measure: what was bounded, or ``label``.
        noise: as ``--noise`` takes it, such as ``gaussian:0.25``; empty for one that has no such name.
        methods: of the bounds, in the order of the log's columns, by name.
        alpha: of a whole certificate; its ``claims`` share it.
        units: what radii are in, if that is not the input's own units; a column only then.
    """

    measure: str
    noise: str
    methods: tuple[str, ...]
    n: int
    n0: int
    alpha: float
    claims: tuple[str, ...]
    sides: str
    units: str = ""

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("n0", self.n0)
        check_alpha(self.alpha)
        check_sides(self.sides)
        for method in self.methods:
            guaranteed(method)  # refuses a name that is none
        if len(self.methods) != (1 if self.measure == "label" else 2) or self.measure not in self.claims:
            raise InvalidArgument(f"a log of the {self.measure} holds no {', '.join(self.methods)} of {self.claims}")

    def cells(self) -> dict[str, str]:
        """What each column holds, by its name."""
        said = {name: value for name, value in asdict(self).items() if value or name != "units"}
        return {name: ",".join(each) if isinstance(each, tuple) else str(each) for name, each in said.items()}

    @classmethod
    def parse(cls, cells: Sequence[str]) -> Self:
        """The inverse of :meth:`cells`."""
        measure, noise, methods, n, n0, alpha, claims, sides, *units = cells
        if noise:
            noise_named(noise)
        shared = tuple(claims.split(","))
        return cls(measure, noise, tuple(methods.split(",")), int(n), int(n0), float(alpha), shared, sides, *units)

    def facts(self) -> dict[str, Any]:
        """What ``run.json`` keeps of it, beside measure and noise."""
        without = ("measure", "noise") if self.units else ("measure", "noise", "units")
        return {name: value for name, value in asdict(self).items() if name not in without}

    @classmethod
    def recorded(cls, config: Mapping[str, Any]) -> Self | None:
        """The inverse, for an imported run; None if the log did not say."""
        if "methods" not in config:
            return None
        with reading(CONFIG, RunError, "does not say what the bounds of a log are", remedy="import the log again"):
            noise = recorded_noise(config)
            said = {field.name: config[field.name] for field in fields(cls) if field.name not in ("noise", "units")}
            said |= {name: tuple(config[name]) for name in ("methods", "claims")}
            units = str(config.get("units", ""))
            return cls(**said, noise="" if noise is None else noise_text(noise), units=units)


_WITH_UNITS = tuple(field.name for field in fields(LogOrigin))
ORIGIN_COLUMNS = _WITH_UNITS[:-1]


def with_origin(log: pa.Table, origin: LogOrigin | None) -> pa.Table:
    """The same log with what is known of its bounds."""
    return log.replace_schema_metadata(None if origin is None else {_ORIGIN: json.dumps([*origin.cells().values()])})


def origin_of(log: pa.Table) -> LogOrigin | None:
    """What is known of the bounds of a log; None if somebody else wrote it."""
    known = (log.schema.metadata or {}).get(_ORIGIN)
    return None if known is None else LogOrigin.parse(json.loads(known))


def export_name(measure: str) -> str:
    """Where a run keeps the log of a measure, in its folder."""
    return "exports/cohen.tsv" if measure == "label" else f"exports/paper_{file_stem(measure)}.tsv"


def log_table(
    index: ArrayLike, label: ArrayLike, predicted: ArrayLike, numbers: ArrayLike, seconds: ArrayLike
) -> pa.Table:
    """A log: Cohen et al.'s if ``numbers`` has one column (the radii), the paper's if it has fourteen (the bounds)."""
    bounds = np.asarray(numbers, dtype=np.float64).T
    columns = COHEN_COLUMNS if len(bounds) == 1 else PAPER_COLUMNS
    correct = np.asarray(predicted) == np.asarray(label)
    values = (index, label, predicted, *bounds, correct, seconds)
    return pa.table(dict(zip(columns, values, strict=True)), schema=_schema(columns))


def _schema(columns: Sequence[str]) -> pa.Schema:
    whole, number = [pa.int64()] * 3, [pa.float64()] * (len(columns) - 5)
    return pa.schema(list(zip(columns, [*whole, *number, pa.bool_(), pa.float64()], strict=True)))


def log_numbers(log: pa.Table) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The columns between ``predict`` and ``correct``, shape (inputs, columns)."""
    return np.stack([log.column(name).to_numpy() for name in log.column_names[3:-2]], axis=1)


def write_log(path: Path, log: pa.Table) -> None:
    """Write a log; reading it back gives the same log, rounded down as written."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(log_lines(log))


def log_lines(log: pa.Table) -> Iterator[str]:
    """A log as it is written."""
    origin = origin_of(log)
    said = {} if origin is None else origin.cells()
    further = said.values()
    yield "\t".join([*log.column_names, *said]) + "\n"
    for batch in log.to_batches(max_chunksize=_ROWS):
        for index, label, predicted, *numbers, correct, seconds in zip(*batch.to_pydict().values(), strict=True):
            rounded = [format(floor_significant(number, 3), ".3") for number in numbers]
            cells = [index, label, predicted, *rounded, int(correct), timedelta(seconds=seconds), *further]
            yield "\t".join(map(str, cells)) + "\n"


def read_log(path: Path) -> pa.Table:
    """Read either kind, told apart by the header."""
    if not path.is_file():
        raise RunError(f"no log at {path}; expected a tab-separated file with a header line")
    with reading(path, RunError, "cannot be read as text", remedy="copy it again"):
        lines = [line for line in read_text(path, RunError).decode("utf-8-sig").splitlines() if line.strip()]
    return parse_log(path, lines)


def parse_log(path: Path, lines: Sequence[str]) -> pa.Table:
    """The lines of a log; ``path`` is where they come from. Each input may appear once, and numbers must make sense."""
    columns = tuple(lines[0].rstrip("\n").split("\t")) if lines else ()
    own = next((each for each in (_WITH_UNITS, ORIGIN_COLUMNS) if columns[-len(each) :] == each), ())
    header = columns[: len(columns) - len(own)]
    if header not in (COHEN_COLUMNS, PAPER_COLUMNS):
        raise RunError(
            f"{path} has the columns {', '.join(header) or '(none)'}; expected '{', '.join(COHEN_COLUMNS)}' (Cohen et al.) "
            f"or 'idx, label, predict, exp_cdf_00, ..., exp_150, correct, time' (the paper), separated by tabs"
        )
    if len(lines) == 1:
        raise RunError(f"{path} has a header and no rows; there is nothing to import")
    cells = [_cells(f"{path}, line {number}", line, columns) for number, line in enumerate(lines[1:], start=2)]
    rows = [_parse(f"{path}, line {number}", each[: len(header)]) for number, each in enumerate(cells, start=2)]
    if len({row[0] for row in rows}) != len(rows):
        raise RunError(f"{path} has rows with the same idx; each input may appear once")
    index, label, predicted, numbers, seconds = zip(*rows, strict=True)
    with reading(path, RunError, "has numbers that no log has", remedy="copy it again"):
        log = log_table(index, label, predicted, numbers, seconds)
    if header == columns:
        return log
    return with_origin(log, _origin(path, header, {tuple(each[len(header) :]) for each in cells}))


def _origin(path: Path, header: Sequence[str], said: set[tuple[str, ...]]) -> LogOrigin:
    """Of all rows at once."""
    if len(said) > 1:
        raise RunError(
            f"{path} says different things in the columns {', '.join(ORIGIN_COLUMNS)} of its rows: it was put together from "
            f"several logs; import them one by one"
        )
    with reading(path, RunError, f"has columns {', '.join(ORIGIN_COLUMNS)} that say nothing", remedy="export it again"):
        origin = LogOrigin.parse(*said)
        if (origin.measure == "label") != (header == COHEN_COLUMNS):
            raise InvalidArgument(f"these are no columns of the {origin.measure}")
    return origin


def check_log(path: Path, log: pa.Table) -> pa.Table:
    """A table that is as :func:`parse_log` makes them: no other columns, no other types, no missing numbers."""
    named = tuple(log.column_names)
    if (
        named not in (COHEN_COLUMNS, PAPER_COLUMNS)
        or log.schema != _schema(named)
        or any(log[k].null_count or not np.isfinite(log[k].to_numpy()).all() for k in named)
        or not 0 <= np.min(log["time"], initial=0.0) <= np.max(log["time"], initial=0.0) <= _LONGEST
    ):
        raise RunError(
            f"{path} is no table of a log: it has other columns, or missing or impossible numbers; import the log again"
        )
    return log


def _cells(where: str, line: str, columns: Sequence[str]) -> list[str]:
    cells = line.rstrip("\n").split("\t")
    if len(cells) != len(columns):
        raise RunError(f"{where}: expected {len(columns)} columns, got {len(cells)}; the file may be cut off")
    return cells


def _parse(where: str, cells: Sequence[str]) -> tuple[int, int, int, list[float], float]:
    with reading(where, RunError, "cannot be read", remedy="copy the log again"):
        index, label, predicted = (int(cell) for cell in cells[:3])
        numbers = [float(cell) for cell in cells[3:-2]]
        seconds = _seconds(cells[-1])
    if not 0 <= seconds <= _LONGEST:
        raise RunError(f"{where}: the time must be hours:minutes:seconds or seconds, got {cells[-1]}")
    if cells[-2].strip() != str(int(predicted == label)):
        raise RunError(
            f"{where}: correct must be 1 where predict is the label and 0 elsewhere, got {cells[-2]} for "
            f"predict {predicted} and label {label}"
        )
    if index < 0 or label < 0 or predicted < -1:
        raise RunError(
            f"{where}: idx and label must be whole numbers from 0, and predict a class from 0 or -1 for an abstention, got "
            f"{index}, {label} and {predicted}"
        )
    if not all(map(math.isfinite, numbers)):
        raise RunError(f"{where}: numbers must be finite, got {numbers}")
    if len(numbers) == 1 and numbers[0] < 0:
        raise RunError(f"{where}: a radius must be at least 0, got {numbers[0]:g}")
    radii = len(PAPER_RADII)
    if any(further > nearer for k in (0, radii) for nearer, further in pairwise(numbers[k : k + radii])):
        raise RunError(
            f"{where}: a bound is larger at a larger radius, which cannot be: a perturbation within the smaller is within the larger; got "
            f"{numbers}"
        )
    return index, label, predicted, numbers, seconds


def _seconds(text: str) -> float:
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return float(text)
    days, hours, minutes, seconds = match.groups(default="0")
    return int(days) * 86_400 + int(hours) * 3_600 + int(minutes) * 60 + float(seconds)
