"""Whether the rows of a part can be computed with: types, missing numbers, and histograms of the copies that a row says."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.errors import RunError
from holdfast.scores.histogram import MOST_BINS

_COUNTED = ("index", "label", "predicted", "n", "votes", "bins")
_MAY_LACK = ("label_radius", "compiled", "shift")
_LOWER, _COUNTERS, _COUNTS = "_lower_at_0", "_counters", "_counts"


def check_part(path: Path, table: pa.Table) -> None:
    """Refuse columns that no run has, and rows that contradict themselves; of those columns that were read.

    ``holdfast verify`` says which rows, and what else does not follow from them.
    """
    for field in table.schema:
        column = table.column(field.name)
        if not _has_type(field):
            raise _wrong(path, f"{field.name} is a column of {field.type}")
        if column.null_count and not field.name.endswith(_LOWER) and field.name not in _MAY_LACK:
            raise _wrong(path, f"a number of {field.name} is missing")
        if field.name in _COUNTED and len(table) and column.to_numpy().min() < 0:
            raise _wrong(path, f"a number of {field.name} is negative")
        if field.name in ("seconds", "shift") and not _are_lengths(column):
            raise _wrong(path, f"a number of {field.name} is no length")
    named = table.column_names
    if {"n", "votes"} <= {*named} and (table["votes"].to_numpy() > table["n"].to_numpy()).any():
        raise _wrong(path, "there are more votes than copies")
    if {"n", "bins"} <= {*named} and len(table):
        for bins in (table["bins"].to_numpy().min(), table["bins"].to_numpy().max()):
            if not 2 <= bins <= MOST_BINS:
                raise _wrong(path, f"histograms of {bins} bins, expected 2 to {MOST_BINS:,}")
        for name in (name.removesuffix(_COUNTERS) for name in named if name.endswith(_COUNTERS)):
            if not _are_histograms(table, name):
                raise _wrong(path, f"the {name} of a row is no histogram of its copies")


def _has_type(field: pa.Field) -> bool:
    if field.name.endswith((_COUNTERS, _COUNTS)):
        return bool(pa.types.is_list(field.type) and pa.types.is_integer(field.type.value_type))
    if field.name in ("abstained", "compiled"):
        return bool(pa.types.is_boolean(field.type))
    return bool(pa.types.is_integer(field.type) if field.name in _COUNTED else pa.types.is_floating(field.type))


def _are_lengths(column: pa.ChunkedArray) -> bool:
    given = column.drop_null().to_numpy()
    return bool(((given >= 0) & np.isfinite(given)).all())


def _are_histograms(table: pa.Table, name: str) -> bool:
    """In each row ascending counters of the grid, each of which counted something: n in all."""
    counters, counts = (table[name + end].combine_chunks() for end in (_COUNTERS, _COUNTS))
    lengths = np.diff(counters.offsets.to_numpy())
    where, many = counters.flatten().to_numpy(), counts.flatten().to_numpy()
    bins = table["bins"].to_numpy()
    if counters.flatten().null_count or counts.flatten().null_count:
        return False
    if not (lengths > 0).all() or not np.array_equal(lengths, np.diff(counts.offsets.to_numpy())):
        return False
    first = np.cumsum(lengths) - lengths
    rising = np.diff(where, prepend=-1) > 0
    rising[first] = True
    return bool(
        rising.all()
        and (where[first] >= 0).all()
        and (where[first + lengths - 1] <= bins).all()
        and (many > 0).all()
        and (many <= 2**40).all()
        and (np.add.reduceat(many, first) == table["n"].to_numpy()).all()
    )


def _wrong(path: Path, said: str) -> RunError:
    return RunError(f"{path} holds what no run has: {said}; restore it from a copy, or certify again")
