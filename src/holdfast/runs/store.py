"""Certificates as Parquet: one row an input, with the counts from which every bound can be computed again.

A run's rows lie in part files, in the order in which they were finished. They are read in the order of their index.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.bounds.named import method_named
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.evidence import Evidence, Provenance
from holdfast.errors import InvalidArgument, RunError, reading
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise
from holdfast.runs.folder import RunFolder
from holdfast.runs.parquet import read_parquet
from holdfast.runs.part_checks import check_part
from holdfast.scores import OccupiedCounters, ScoreHistogram
from holdfast.scores.grid import Grid
from holdfast.validation import check_sides

_PREFIX = "part-"
_REMEDY = (
    "restore it from a copy; if the run is not finished, delete it, and the same command certifies its inputs again"
)
ADDED = ("compiled", "shift")
"""Columns that older runs lack."""


@dataclass(frozen=True)
class Entry:
    """One input of a run: its index in the dataset, its label, and its certificate."""

    index: int
    label: int
    certificate: Certificate


def schema_of(measures: Sequence[MeasureInfo]) -> pa.Schema:
    """The columns of a run that counted these measures."""
    names = [info.name for info in measures]
    lists = {counters_column: pa.list_(pa.int32()), counts_column: pa.list_(pa.int64())}
    return pa.schema(
        [
            ("index", pa.int64()),
            ("label", pa.int64()),
            ("predicted", pa.int64()),
            ("abstained", pa.bool_()),
            ("n", pa.int64()),
            ("votes", pa.int64()),
            ("label_radius", pa.float64()),
            *((lower_at_0(name), pa.float64()) for name in names),
            ("bins", pa.int32()),
            *((column(name), kind) for name in names for column, kind in lists.items()),
            ("seconds", pa.float64()),
            ("compiled", pa.bool_()),
            ("shift", pa.float64()),
        ]
    )


def lower_at_0(measure: str) -> str:
    """The column of a measure's lower bound at the input itself."""
    return f"{measure}_lower_at_0"


def counters_column(measure: str) -> str:
    """The column of a measure's occupied counters."""
    return f"{measure}_counters"


def counts_column(measure: str) -> str:
    """The column of what they counted."""
    return f"{measure}_counts"


def bytes_per_entry(n: int, measures: int) -> int:
    """A generous estimate, to check the room on the disk: a few bytes per occupied bin of each histogram."""
    return 2_000 + measures * 6 * min(n, 16_385)


def as_table(entries: Sequence[Entry]) -> pa.Table:
    """Entries in the compact form they are stored in."""
    certificates = [entry.certificate for entry in entries]
    evidence = [certificate.evidence for certificate in certificates]
    measures = evidence[0].measures
    if any(each.measures != measures for each in evidence):
        raise InvalidArgument(
            "a run holds certificates of the same measures, got some of others; make two runs of them"
        )
    if any(certificate.share != 1 for certificate in certificates):
        raise InvalidArgument(
            "a run holds certificates that may spend all of their alpha, got one of several planned looks; keep it as JSON"
        )
    bins = [{histogram.grid.bins for histogram in each.histograms.values()} for each in evidence]
    if any(len(each) != 1 for each in bins):
        raise InvalidArgument("a run holds histograms of one number of bins for each input, got several; see coarser()")
    columns: dict[str, Any] = {
        "index": [entry.index for entry in entries],
        "label": [entry.label for entry in entries],
        "predicted": [certificate.predicted for certificate in certificates],
        "abstained": [certificate.abstained for certificate in certificates],
        "n": [certificate.n for certificate in certificates],
        "votes": [each.votes for each in evidence],
        "label_radius": [each.label_radius if "label" in each.claims else None for each in certificates],
        "bins": [each.pop() for each in bins],
        "seconds": [certificate.provenance.seconds for certificate in certificates],
        "compiled": [certificate.provenance.compiled for certificate in certificates],
        "shift": [certificate.provenance.shift for certificate in certificates],
    }
    for name in (info.name for info in measures):
        columns[lower_at_0(name)] = [
            each.curve(name).lower(0.0) if name in each.claims else None for each in certificates
        ]
        histograms = [each[name] for each in evidence]
        columns[counters_column(name)] = [each.occupied for each in histograms]
        columns[counts_column(name)] = [each.counts[each.occupied] for each in histograms]
    return pa.table(columns, schema=schema_of(measures))


def write_table(folder: RunFolder, number: int, table: pa.Table) -> None:
    """Write compact entries as the part of that number; repeats a write that an interruption hid."""
    # Occupied counters are close together and neighbouring counts are alike: differences take half the space of the numbers.
    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    encoding = {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in lists}

    def write(path: Path) -> None:
        pq.write_table(
            table, path, compression="zstd", use_dictionary=False, column_encoding=encoding, write_page_checksum=True
        )

    folder.write(f"certificates/{_PREFIX}{number:05d}.parquet", write, replace=True)


def write_part(folder: RunFolder, number: int, entries: Sequence[Entry]) -> None:
    """Write a few entries as the part of that number."""
    write_table(folder, number, as_table(entries))


def next_part(folder: RunFolder) -> int:
    """The first number above every part's."""
    numbers = [path.stem.removeprefix(_PREFIX) for path in parts_of(folder)]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1) + 1


def read_columns(folder: RunFolder, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Plain columns of all entries, in the order of their index; refused if an input is there twice."""
    parts = [_checked_part(path, list({"index", *names})) for path in parts_of(folder)]
    if not parts:
        return {name: np.zeros(0, dtype=np.int64) for name in names}
    table = _by_index(pa.concat_tables(parts))
    if (np.diff(table.column("index").to_numpy()) == 0).any():
        raise RunError(f"{folder.path} holds the same input more than once; remove the part file that was copied")
    return {name: table.column(name).to_numpy() for name in names}


def read_entries(
    folder: RunFolder,
    config: Mapping[str, Any],
    noise: Noise,
    measures: Sequence[MeasureInfo],
    *,
    where: NDArray[np.bool_] | None = None,
) -> Iterator[Entry]:
    """Entries of a run, in the order of their index; one part in memory at a time, if the parts are in order.

    ``where`` says which of them, in that order; all by default.
    """
    read_columns(folder, ["index"])  # refuses a run that holds an input twice
    method, sides = method_named(config["method"]), check_sides(config["sides"])
    for row in _rows(folder, schema_of(measures), where=where):
        histograms = {
            info: ScoreHistogram.from_occupied(
                row[counters_column(info.name)],
                row[counts_column(info.name)],
                bins=row["bins"],
                support=info.support,
                noise=noise,
            )
            for info in measures
        }
        own = {
            "index": row["index"],
            "seconds": row["seconds"],
            "compiled": bool(row["compiled"]),  # nothing is said in runs from before there was a choice
            "shift": row["shift"] or 0.0,
        }
        certificate = Certificate(
            predicted=row["predicted"],
            n0=int(config["n0"]),
            alpha=float(config["alpha"]),
            claims=tuple(config["claims"]),
            sides=sides,
            method=method,
            evidence=Evidence(row["n"], row["votes"], histograms),
            provenance=Provenance.from_dict({**config["provenance"], **own}),
        )
        yield Entry(row["index"], row["label"], certificate)


def read_scores(folder: RunFolder, measure: MeasureInfo, noise: Noise) -> Iterator[OccupiedCounters]:
    """The counts of one measure of every input, in the order of their index, and nothing else of them."""
    counters, counts = counters_column(measure.name), counts_column(measure.name)
    for row in _rows(folder, schema_of([measure]), ["index", "n", "bins", counters, counts]):
        yield OccupiedCounters(row[counters], row[counts], Grid(measure.support, row["bins"]), noise=noise)


def read_shifts(folder: RunFolder) -> NDArray[np.float64]:
    """How far each input was from the point that was sampled, in the order of their index; nowhere in runs of 0.1.0."""
    schema = pa.schema([("index", pa.int64()), ("shift", pa.float64())])
    parts = [_checked_part(path, schema.names, schema) for path in parts_of(folder)]
    shifts = pa.concat_tables(parts or [schema.empty_table()]).sort_by("index").column("shift")
    return np.asarray(shifts.fill_null(0.0).to_numpy(), dtype=np.float64)


def parts_of(folder: RunFolder) -> list[Path]:
    """All parts, in the order they were written in."""
    found = (folder.path / "certificates").glob(f"{_PREFIX}*.parquet")
    return sorted(found, key=lambda path: (len(path.name), path.name))


def read_part(path: Path, columns: Sequence[str] | None, schema: pa.Schema | None = None) -> pa.Table:
    """Some columns of one part, or all; refused if its pages do not have the checksums that were written with them."""
    with reading(path, RunError, "cannot be read", remedy=_REMEDY):
        table = read_parquet(path, columns, schema)
    for name in table.column_names:
        if pa.types.is_list(table.schema.field(name).type) and table.column(name).null_count:
            raise RunError(f"{path} has no {name}, which run.json lists; {_REMEDY}")
    return table


def _checked_part(path: Path, columns: Sequence[str] | None, schema: pa.Schema | None = None) -> pa.Table:
    """The same, of rows that can be computed with."""
    table = read_part(path, columns, schema)
    check_part(path, table)
    return table


def _rows(
    folder: RunFolder,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    *,
    where: NDArray[np.bool_] | None = None,
) -> Iterator[Mapping[str, Any]]:
    done = 0
    for group in _in_order(folder):
        table = _by_index(pa.concat_tables(_checked_part(path, columns, schema) for path in group))
        wanted = table if where is None else table.filter(where[done : done + len(table)])
        done += len(table)
        yield from rows_of(wanted)


def rows_of(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Row by row. Lists of counts stay NumPy arrays: as Python numbers they would take a hundred times as long."""
    found = {name: table.column(name).combine_chunks() for name in table.column_names}
    lists = {name: column for name, column in found.items() if pa.types.is_list(column.type)}
    plain = {name: column.to_pylist() for name, column in found.items() if name not in lists}
    for row in range(len(table)):
        yield {
            **{name: values[row] for name, values in plain.items()},
            **{name: column[row].values.to_numpy() for name, column in lists.items()},
        }


def _by_index(table: pa.Table) -> pa.Table:
    """In the order of the index; most are, and sorting lists of counts takes longer than reading them."""
    ascending = (np.diff(table.column("index").to_numpy()) >= 0).all()
    return table if ascending else table.sort_by("index")


def _in_order(folder: RunFolder) -> list[list[Path]]:
    """The parts, in groups to be read one after the other: only parts of a group share a range of indices."""
    ranges = []
    for path in parts_of(folder):
        indices = _checked_part(path, ["index"]).column("index").to_numpy()
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
