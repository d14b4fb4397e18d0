"""The two tab-separated logs the field reads: Cohen et al.'s and the paper's.

Lower bounds and radii are written with three significant digits, rounded **down**; the logs' authors rounded to nearest.
A certificate that abstains is written with class -1, and keeps its bounds.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from holdfast.errors import RunError
from holdfast.scores.rounding import floor_significant

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


@dataclass(frozen=True)
class LogRow:
    """One input of a log; ``numbers`` are the columns between ``predict`` and ``correct``."""

    index: int
    label: int
    predicted: int
    numbers: tuple[float, ...]
    correct: bool
    seconds: float


@dataclass(frozen=True)
class Log:
    """A whole log with its columns."""

    columns: tuple[str, ...]
    rows: Sequence[LogRow] = field(repr=False)

    @property
    def is_cohen(self) -> bool:
        """Whether these are label radii; otherwise the paper's bounds."""
        return self.columns == COHEN_COLUMNS


def write_log(path: Path, log: Log) -> None:
    """Write a log; reading it back gives the same log, rounded down as written."""
    with path.open("w", encoding="utf-8") as file:
        file.write("\t".join(log.columns) + "\n")
        for row in log.rows:
            numbers = [format(floor_significant(number, 3), ".3") for number in row.numbers]
            who = [str(row.index), str(row.label), str(row.predicted)]
            file.write("\t".join([*who, *numbers, str(int(row.correct)), str(timedelta(seconds=row.seconds))]) + "\n")


def read_log(path: Path) -> Log:
    """Read either kind, told apart by the header."""
    if not path.is_file():
        raise RunError(f"no log at {path}; expected a tab-separated file with a header line")
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read as text ({error})") from error
    header = tuple(lines[0].split("\t")) if lines else ()
    if header not in (COHEN_COLUMNS, PAPER_COLUMNS):
        raise RunError(
            f"{path} has the columns {', '.join(header) or '(none)'}; expected '{', '.join(COHEN_COLUMNS)}' (Cohen et al.) "
            f"or 'idx, label, predict, exp_cdf_00, ..., exp_150, correct, time' (the paper), separated by tabs"
        )
    if len(lines) == 1:
        raise RunError(f"{path} has a header and no rows; there is nothing to import")
    rows = [_parse(path, number, line, header) for number, line in enumerate(lines[1:], start=2)]
    if len({row.index for row in rows}) != len(rows):
        raise RunError(f"{path} has rows with the same idx; each input may appear once")
    return Log(header, rows)


def _parse(path: Path, number: int, line: str, header: Sequence[str]) -> LogRow:
    cells = line.split("\t")
    if len(cells) != len(header):
        raise RunError(
            f"{path}, line {number}: expected {len(header)} columns, got {len(cells)}; the file may be cut off"
        )
    try:
        row = LogRow(
            index=int(cells[0]),
            label=int(cells[1]),
            predicted=int(cells[2]),
            numbers=tuple(float(cell) for cell in cells[3:-2]),
            correct=int(cells[-2]) == 1,
            seconds=_seconds(cells[-1]),
        )
    except ValueError as error:
        raise RunError(f"{path}, line {number}: {error}") from error
    if cells[-2].strip() not in ("0", "1") or row.correct != (row.predicted == row.label):
        raise RunError(
            f"{path}, line {number}: correct must be 1 where predict is the label and 0 elsewhere, got {cells[-2]} for "
            f"predict {row.predicted} and label {row.label}"
        )
    low, high = (0.0, math.inf) if len(row.numbers) == 1 else (-1.0, 1.0)
    if not all(low <= value <= high for value in row.numbers):
        raise RunError(f"{path}, line {number}: numbers must lie in [{low:g}, {high:g}], got {row.numbers}")
    return row


def _seconds(text: str) -> float:
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return float(text)
    days, hours, minutes, seconds = match.groups(default="0")
    return int(days) * 86_400 + int(hours) * 3_600 + int(minutes) * 60 + float(seconds)
