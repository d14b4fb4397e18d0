"""Tables with a column of labels and columns of numbers: CSV and Parquet."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.budgets import ROWS, check_expansion
from holdfast.errors import DatasetError, reading
from holdfast.zoo.datasets.labelled import LabelledInputs

SUFFIXES = (".csv", ".parquet")
LABELS = ("label", "target", "class", "y")
_MOST_CELLS = 2**28


def table_named(name: str) -> tuple[Path, str | None] | None:
    """``TABLE.csv``, or ``TABLE.csv:COLUMN``; None if it is no table's name."""
    path = Path(name)
    if path.suffix.lower() in SUFFIXES:
        return path, None
    place, _, column = name.rpartition(":")
    return (Path(place), column) if Path(place).suffix.lower() in SUFFIXES and column else None


def load_table(path: Path, column: str | None = None) -> LabelledInputs:
    """Every column but the labels' is a feature, in the table's order; labels that are words are numbered in their order.

    Features keep their units: noise is the same in all of them, unless the model is ``holdfast.Scaled``.
    """
    if not path.is_file():
        raise DatasetError(f"no table at {path}")
    with reading(path, DatasetError, "is not a readable table", remedy="write it again, as UTF-8 if it is CSV"):
        table = _read(path)
        ROWS.check(path, table.num_rows, DatasetError)
        return inputs_of(path, path.stem, table, column)


def inputs_of(
    path: Path, name: str, table: pa.Table, column: str | None = None, words: tuple[str, ...] = ()
) -> LabelledInputs:
    """The rows of a table as inputs."""
    label = _label(path, table.column_names, column)
    features = [each for each in table.column_names if each != label]
    if not features or len(set(table.column_names)) < len(table.column_names):
        raise DatasetError(
            f"{path} must have columns of different names, one of labels and at least one feature, got {table.column_names}"
        )
    if len(features) * table.num_rows > _MOST_CELLS:
        raise DatasetError(
            f"{path} has {len(features):,} x {table.num_rows:,} numbers, more than the {_MOST_CELLS:,} that are read"
        )
    labels, found = _labels(path, label, table[label])
    numbers = np.stack([_numbers(path, each, table[each]) for each in features], axis=1)
    return LabelledInputs(name, numbers, labels, np.arange(len(labels)), words or found)


def _read(path: Path) -> pa.Table:
    if path.suffix.lower() == ".csv":
        return csv.read_csv(path)
    written = pq.read_metadata(path)
    ROWS.check(path, written.num_rows, DatasetError)
    check_expansion(
        path, sum(written.row_group(k).total_byte_size for k in range(written.num_row_groups)), DatasetError
    )
    return pq.read_table(path)


def _label(path: Path, names: list[str], asked: str | None) -> str:
    found = [asked] if asked else [name for name in names if name.lower() in LABELS]
    if len(found) != 1 or found[0] not in names:
        wanted = f"a column {asked!r}" if asked else f"one column named {', '.join(map(repr, LABELS))}"
        raise DatasetError(
            f"{path} must have {wanted}, got {', '.join(map(repr, names[:12]))}{', ...' if len(names) > 12 else ''}; name the column of "
            f"labels: {path}:COLUMN"
        )
    return found[0]


def _labels(path: Path, name: str, column: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class numbers from 0, and the words they stand for, if they are words."""
    if column.null_count:
        raise DatasetError(f"{path}: {column.null_count} rows have no {name!r}; leave them out")
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(np.int64), ()
    if pa.types.is_boolean(column.type):
        return column.to_numpy().astype(np.int64), ("false", "true")
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    if not (pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type)):
        raise DatasetError(
            f"{path}: labels must be whole numbers or words, got {column.type} in {name!r}; name another column: {path}:COLUMN"
        )
    words = sorted(pc.unique(plain).to_pylist())
    return pc.index_in(plain, pa.array(words, plain.type)).to_numpy().astype(np.int64), tuple(words)


def _numbers(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.float32]:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        raise DatasetError(
            f"{path}: the column {name!r} has {column.type}, not numbers; no noise can be added to it: encode it, or leave it out "
            f"(or say which column has the labels: {path}:COLUMN)"
        )
    numbers: NDArray[np.float32] = column.to_numpy().astype(np.float32)
    if column.null_count or not np.isfinite(numbers).all():
        raise DatasetError(
            f"{path}: the column {name!r} has missing or infinite numbers; fill them in, or leave those rows out"
        )
    return numbers
