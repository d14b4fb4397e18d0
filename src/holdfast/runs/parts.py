"""The part files of a run: lists them, and reads only the columns asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import RunError
from holdfast.runs.folder import RunFolder

_PREFIX = "part-"


def part_name(number: int) -> str:
    """Where the part of that number is, in the run's folder."""
    return f"certificates/{_PREFIX}{number:05d}.parquet"


def part_paths(folder: RunFolder) -> list[Path]:
    """All parts, in the order they were written in."""
    found = (folder.path / "certificates").glob(f"{_PREFIX}*.parquet")
    return sorted(found, key=lambda path: (len(path.name), path.name))


def next_part(folder: RunFolder) -> int:
    """The first number above every part's."""
    numbers = [path.stem.removeprefix(_PREFIX) for path in part_paths(folder)]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1) + 1


def read_part(path: Path, *, columns: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """One part, or some columns of it."""
    try:
        return pq.read_table(path, columns=None if columns is None else list(columns), schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise RunError(f"{path} cannot be read ({error}); restore it from a copy, or certify again") from error


def read_indices(folder: RunFolder) -> NDArray[np.int64]:
    """The index of every entry, in the order of the parts; refused if one is there twice."""
    indices = _column(folder, "index").astype(np.int64)
    if np.unique(indices).size != indices.size:
        raise RunError(f"{folder.path} holds the same input more than once; remove the part file that was copied")
    return indices


def read_columns(folder: RunFolder, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Plain columns of all entries, in the order of their index."""
    order = np.argsort(read_indices(folder))
    return {name: _column(folder, name)[order] for name in names}


def in_order(folder: RunFolder) -> list[list[Path]]:
    """The parts, in groups to be read one after the other: only parts of a group share a range of indices."""
    ranges = []
    for path in part_paths(folder):
        indices = read_part(path, columns=["index"]).column("index").to_numpy()
        if indices.size:
            ranges.append((int(indices.min()), int(indices.max()), path))
    groups: list[list[Path]] = []
    reach = -1
    for low, high, path in sorted(ranges):
        if groups and low <= reach:
            groups[-1].append(path)
        else:
            groups.append([path])
        reach = max(reach, high)
    return groups


def _column(folder: RunFolder, name: str) -> NDArray[Any]:
    parts = [read_part(path, columns=[name]).column(name).to_numpy() for path in part_paths(folder)]
    return np.concatenate(parts) if parts else np.zeros(0)
