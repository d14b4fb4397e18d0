"""What can happen to the files of a run: one value edited, one bit flipped."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.runs.folder import RunFolder
from holdfast.runs.manifest import Manifest
from holdfast.runs.store import write_table


def files_of(run: Path) -> list[Path]:
    """Every file of a run but its lock."""
    return sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")


@contextmanager
def restored(run: Path) -> Iterator[Path]:
    """The run, to do things to; afterwards every file is as it was."""
    before = {path: path.read_bytes() for path in files_of(run)}
    try:
        yield run
    finally:
        for path in set(files_of(run)) - set(before):
            path.unlink()
        for path, content in before.items():
            path.write_bytes(content)


def resealed(run: Path) -> None:
    """What a careful forger does: the manifest is of the files as they are now."""
    (run / "manifest.json").write_bytes(Manifest.of(run, config=(run / "run.json").read_bytes()).text())


def flip_bit(path: Path, rng: np.random.Generator) -> str:
    content = bytearray(path.read_bytes())
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    path.write_bytes(bytes(content))
    return f"{path.name}: bit {bit} of byte {place}"


def edit_value(path: Path, rng: np.random.Generator) -> str:
    """Another value in place of one that the file holds."""
    edit = {".json": _edit_json, ".parquet": _edit_parquet, ".tsv": _edit_cell, ".npz": _edit_array, ".sig": flip_bit}
    return edit[path.suffix](path, rng)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a JSON document has its values."""
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*place, key))
    else:
        yield place


def set_leaf(path: Path, place: tuple[Any, ...], value: Any) -> None:
    document = json.loads(path.read_text())
    held = document
    for key in place[:-1]:
        held = held[key]
    held[place[-1]] = value
    path.write_text(json.dumps(document, indent=2) + "\n")


def leaf(path: Path, place: tuple[Any, ...]) -> Any:
    held = json.loads(path.read_text())
    for key in place:
        held = held[key]
    return held


def _edit_json(path: Path, rng: np.random.Generator) -> str:
    places = list(leaves(json.loads(path.read_text())))
    place = places[int(rng.integers(len(places)))]
    old = leaf(path, place)
    if rng.random() < 0.1:
        new: Any = [1, 2] if old is None else None
    elif isinstance(old, str):
        at = int(rng.integers(len(old) + 1))
        new = old[:at] + "0123456789abcdef"[int(rng.integers(16))] + old[at:]
    else:
        new = other(old, rng)
    set_leaf(path, place, new)
    return f"{path.name}: {'.'.join(map(str, place))} from {old!r} to {new!r}"


def other(old: Any, rng: np.random.Generator) -> Any:
    """Another value of the same type, as far as there is one."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + int(rng.choice([-3, -1, 1, 2, 40]))
    if isinstance(old, float):
        return old * float(rng.choice([0.5, 0.99, 1.01, 3.0])) if old else 0.125
    return 7 if old is None else None


def edit_cell(path: Path, column: str, row: int, rng: np.random.Generator) -> str:
    """One value of a part; in a list, one of its elements."""
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    old = values[row]
    if isinstance(old, list):
        place = int(rng.integers(len(old)))
        values[row] = [*old[:place], other(old[place], rng), *old[place + 1 :]]
    else:
        values[row] = other(old, rng)
    changed = table.set_column(
        table.column_names.index(column), table.schema.field(column), pa.array(values, table.schema.field(column).type)
    )
    write_table(RunFolder(path.parents[1]), int(path.stem.removeprefix("part-")), changed)
    return f"{path.name}: {column} of row {row}"


def _edit_parquet(path: Path, rng: np.random.Generator) -> str:
    table = pq.read_table(path)
    column = table.column_names[int(rng.integers(len(table.column_names)))]
    return edit_cell(path, column, int(rng.integers(len(table))), rng)


def _edit_cell(path: Path, rng: np.random.Generator) -> str:
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    row, column = int(rng.integers(len(lines))), int(rng.integers(len(lines[0])))
    lines[row][column] += str(rng.integers(10))
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return f"{path.name}: line {row + 1}, column {column + 1}"


def _edit_array(path: Path, rng: np.random.Generator) -> str:
    with np.load(path) as found:
        arrays = dict(found)
    name = ("rows", "probabilities")[int(rng.integers(2))]
    place = int(rng.integers(arrays[name].size))
    arrays[name].flat[place] += 0.25
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return f"{path.name}: {name} at {place}"
