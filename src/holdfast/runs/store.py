"""Certificates as Parquet: one row an input, with the counts from which every bound can be computed again."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.bounds import Method
from holdfast.bounds.named import method_named
from holdfast.certificates.certificate import Certificate, Provenance
from holdfast.certificates.evidence import Evidence, stored_measures
from holdfast.errors import InvalidArgument
from holdfast.runs.folder import RunFolder
from holdfast.runs.parts import in_order, part_name, read_indices, read_part
from holdfast.scores import OccupiedCounters, ScoreHistogram
from holdfast.scores.grid import Grid
from holdfast.validation import check_sides

_SUPPORTS = {"score": (0.0, 1.0), "margin": (-1.0, 1.0)}
_COUNTERS = pa.list_(pa.int32())
_COUNTS = pa.list_(pa.int64())
_SCHEMA = pa.schema(
    [
        ("index", pa.int64()),
        ("label", pa.int64()),
        ("predicted", pa.int64()),
        ("abstained", pa.bool_()),
        ("n", pa.int64()),
        ("votes", pa.int64()),
        ("label_radius", pa.float64()),
        ("score_lower_at_0", pa.float64()),
        ("margin_lower_at_0", pa.float64()),
        ("bins", pa.int32()),
        ("score_counters", _COUNTERS),
        ("score_counts", _COUNTS),
        ("margin_counters", _COUNTERS),
        ("margin_counts", _COUNTS),
        ("seconds", pa.float64()),
        ("compiled", pa.bool_()),
    ]
)
# Occupied counters are close together and neighbouring counts are alike: differences take half the space of the numbers.
_ENCODING: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "column_encoding": {
        f"{field.name}.list.element": "DELTA_BINARY_PACKED" for field in _SCHEMA if pa.types.is_list(field.type)
    },
}


@dataclass(frozen=True)
class Entry:
    """One input of a run: its index in the dataset, its label, and its certificate."""

    index: int
    label: int
    certificate: Certificate


def bytes_per_entry(n: int) -> int:
    """A generous guess, for asking whether the disk has room: two histograms, a few bytes an occupied bin."""
    return 2_000 + 2 * 6 * min(n, 16_385)


def as_table(entries: Sequence[Entry]) -> pa.Table:
    """Entries in the compact form they are stored in."""
    columns = _columns(entries)
    return pa.Table.from_arrays([columns[field.name] for field in _SCHEMA], schema=_SCHEMA)


def write_table(folder: RunFolder, number: int, table: pa.Table) -> None:
    """Write compact entries as the part of that number; again, if an interruption hid that it had been written."""
    folder.write(part_name(number), lambda path: pq.write_table(table, path, **_ENCODING), replace=True)


def write_part(folder: RunFolder, number: int, entries: Sequence[Entry]) -> None:
    """Write a few entries as the part of that number."""
    write_table(folder, number, as_table(entries))


def read_entries(folder: RunFolder) -> Iterator[Entry]:
    """All entries of a run, in the order of their index; one part in memory at a time, if the parts are in order."""
    read_indices(folder)  # refuses a run that holds an input twice
    config = folder.config()
    method = method_named(config["method"])
    for group in in_order(folder):
        for row in heapq.merge(*(_rows(path) for path in group), key=lambda row: int(row["index"])):
            yield _entry(row, config, method)


def read_scores(folder: RunFolder, measure: str) -> Iterator[OccupiedCounters]:
    """The counts of one measure of every input, in the order of their index, and nothing else of them."""
    sigma, support = float(folder.config()["sigma"]), _SUPPORTS[measure]
    columns = ["index", "bins", f"{measure}_counters", f"{measure}_counts"]
    for group in in_order(folder):
        for row in heapq.merge(*(_rows(path, columns) for path in group), key=lambda row: int(row["index"])):
            yield OccupiedCounters(row[columns[2]], row[columns[3]], Grid(support, row["bins"]), sigma)


def _columns(entries: Sequence[Entry]) -> dict[str, pa.Array]:
    certificates = [entry.certificate for entry in entries]
    if any(certificate.share != 1 for certificate in certificates):
        raise InvalidArgument(
            "a run holds certificates that may spend all of their alpha, got one of several planned looks; keep it as JSON"
        )
    evidence = [certificate.evidence for certificate in certificates]

    def if_claimed(claim: str, value: Callable[[Certificate], float]) -> list[float | None]:
        return [value(certificate) if claim in certificate.claims else None for certificate in certificates]

    plain: dict[str, list[Any]] = {
        "index": [entry.index for entry in entries],
        "label": [entry.label for entry in entries],
        "predicted": [certificate.predicted for certificate in certificates],
        "abstained": [certificate.abstained for certificate in certificates],
        "n": [certificate.n for certificate in certificates],
        "votes": [each.votes for each in evidence],
        "label_radius": if_claimed("label", lambda certificate: certificate.label_radius),
        "score_lower_at_0": if_claimed("score", lambda certificate: certificate.score.lower(0.0)),
        "margin_lower_at_0": if_claimed("margin", lambda certificate: certificate.margin.lower(0.0)),
        "bins": [each["score"].grid.bins for each in evidence],
        "seconds": [certificate.provenance.seconds for certificate in certificates],
        "compiled": [certificate.provenance.compiled for certificate in certificates],
    }
    columns = {name: pa.array(values, type=_SCHEMA.field(name).type) for name, values in plain.items()}
    for name, histograms in {
        "score": [each["score"] for each in evidence],
        "margin": [each["margin"] for each in evidence],
    }.items():
        columns[f"{name}_counters"] = _ragged([each.occupied for each in histograms], np.int32)
        columns[f"{name}_counts"] = _ragged([each.counts[each.occupied] for each in histograms], np.int64)
    return columns


def _ragged(rows: Sequence[NDArray[np.int64]], dtype: type[np.integer[Any]]) -> pa.ListArray:
    offsets = np.concatenate(([0], np.cumsum([row.size for row in rows]))).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(rows).astype(dtype)))


def _rows(part: Path, columns: Sequence[str] | None = None) -> Iterator[Mapping[str, Any]]:
    table = read_part(part, columns=columns, schema=_SCHEMA).sort_by("index")
    # Lists of counts stay NumPy arrays: as Python numbers they would take a hundred times as long.
    found = {name: table.column(name).combine_chunks() for name in table.column_names}
    lists = {name: column for name, column in found.items() if pa.types.is_list(column.type)}
    plain = {name: column.to_pylist() for name, column in found.items() if name not in lists}
    for row in range(len(table)):
        yield {
            **{name: values[row] for name, values in plain.items()},
            **{name: column[row].values.to_numpy() for name, column in lists.items()},
        }


def _entry(row: Mapping[str, Any], config: Mapping[str, Any], method: Method) -> Entry:
    sigma = float(config["sigma"])

    def histogram(name: str) -> ScoreHistogram:
        return ScoreHistogram.from_occupied(
            row[f"{name}_counters"], row[f"{name}_counts"], bins=row["bins"], support=_SUPPORTS[name], sigma=sigma
        )

    certificate = Certificate(
        predicted=row["predicted"],
        n0=int(config["n0"]),
        alpha=float(config["alpha"]),
        claims=tuple(config["claims"]),
        sides=check_sides(config["sides"]),
        method=method,
        evidence=Evidence(row["n"], row["votes"], {info: histogram(info.name) for info in stored_measures(None)}),
        provenance=Provenance.from_dict(
            {
                **config["provenance"],
                "index": row["index"],
                "seconds": row["seconds"],
                "compiled": bool(row["compiled"]),  # nothing is said in runs from before there was a choice
            }
        ),
    )
    return Entry(row["index"], row["label"], certificate)
