"""Certificates as Parquet: one row an input, with the counts from which every bound can be computed again."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
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
from holdfast.certificates.evidence import Evidence
from holdfast.errors import InvalidArgument, RunError
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise
from holdfast.runs.folder import RunFolder
from holdfast.runs.parts import in_order, part_name, read_indices, read_part
from holdfast.runs.recorded import recorded_measures, recorded_noise
from holdfast.scores import OccupiedCounters, ScoreHistogram
from holdfast.scores.grid import Grid
from holdfast.validation import Sides, check_sides

_COUNTERS = pa.list_(pa.int32())
_COUNTS = pa.list_(pa.int64())


@dataclass(frozen=True)
class Entry:
    """One input of a run: its index in the dataset, its label, and its certificate."""

    index: int
    label: int
    certificate: Certificate


def schema_of(measures: Sequence[MeasureInfo]) -> pa.Schema:
    """The columns of a run that counted these measures."""
    names = [info.name for info in measures]
    return pa.schema(
        [
            ("index", pa.int64()),
            ("label", pa.int64()),
            ("predicted", pa.int64()),
            ("abstained", pa.bool_()),
            ("n", pa.int64()),
            ("votes", pa.int64()),
            ("label_radius", pa.float64()),
            *((_lower_at_0(name), pa.float64()) for name in names),
            ("bins", pa.int32()),
            *(column for name in names for column in ((_counters(name), _COUNTERS), (_counts(name), _COUNTS))),
            ("seconds", pa.float64()),
            ("compiled", pa.bool_()),
        ]
    )


def bytes_per_entry(n: int, measures: int) -> int:
    """A generous estimate, to check the room on the disk: a few bytes per occupied bin of each histogram."""
    return 2_000 + measures * 6 * min(n, 16_385)


def as_table(entries: Sequence[Entry]) -> pa.Table:
    """Entries in the compact form they are stored in."""
    measures = entries[0].certificate.evidence.measures
    if any(entry.certificate.evidence.measures != measures for entry in entries):
        raise InvalidArgument(
            "a run holds certificates of the same measures, got some of others; make two runs of them"
        )
    schema = schema_of(measures)
    columns = _columns(entries, measures, schema)
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def write_table(folder: RunFolder, number: int, table: pa.Table) -> None:
    """Write compact entries as the part of that number; repeats a write that an interruption hid."""
    # Occupied counters are close together and neighbouring counts are alike: differences take half the space of the numbers.
    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    encoding = {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in lists}

    def write(path: Path) -> None:
        pq.write_table(table, path, compression="zstd", use_dictionary=False, column_encoding=encoding)

    folder.write(part_name(number), write, replace=True)


def write_part(folder: RunFolder, number: int, entries: Sequence[Entry]) -> None:
    """Write a few entries as the part of that number."""
    write_table(folder, number, as_table(entries))


def read_entries(folder: RunFolder) -> Iterator[Entry]:
    """All entries of a run, in the order of their index; one part in memory at a time, if the parts are in order."""
    read_indices(folder)  # refuses a run that holds an input twice
    settings = _CertificateSettings.of(folder.config())
    schema = schema_of(settings.measures)
    for group in in_order(folder):
        for row in heapq.merge(*(_rows(path, schema) for path in group), key=lambda row: int(row["index"])):
            yield _entry(row, settings)


def read_scores(folder: RunFolder, measure: MeasureInfo, noise: Noise) -> Iterator[OccupiedCounters]:
    """The counts of one measure of every input, in the order of their index, and nothing else of them."""
    columns = ["index", "bins", _counters(measure.name), _counts(measure.name)]
    schema = schema_of([measure])
    for group in in_order(folder):
        for row in heapq.merge(*(_rows(path, schema, columns) for path in group), key=lambda row: int(row["index"])):
            yield OccupiedCounters(row[columns[2]], row[columns[3]], Grid(measure.support, row["bins"]), noise=noise)


def _counters(name: str) -> str:
    return f"{name}_counters"


def _counts(name: str) -> str:
    return f"{name}_counts"


def _lower_at_0(name: str) -> str:
    return f"{name}_lower_at_0"


def _columns(entries: Sequence[Entry], measures: Sequence[MeasureInfo], schema: pa.Schema) -> dict[str, pa.Array]:
    certificates = [entry.certificate for entry in entries]
    if any(certificate.share != 1 for certificate in certificates):
        raise InvalidArgument(
            "a run holds certificates that may spend all of their alpha, got one of several planned looks; keep it as JSON"
        )
    evidence = [certificate.evidence for certificate in certificates]
    bins = [{histogram.grid.bins for histogram in each.histograms.values()} for each in evidence]
    if any(len(each) != 1 for each in bins):
        raise InvalidArgument("a run holds histograms of one number of bins for each input, got several; see coarser()")
    plain: dict[str, list[Any]] = {
        "index": [entry.index for entry in entries],
        "label": [entry.label for entry in entries],
        "predicted": [certificate.predicted for certificate in certificates],
        "abstained": [certificate.abstained for certificate in certificates],
        "n": [certificate.n for certificate in certificates],
        "votes": [each.votes for each in evidence],
        "label_radius": [each.label_radius if "label" in each.claims else None for each in certificates],
        "bins": [next(iter(each)) for each in bins],
        "seconds": [certificate.provenance.seconds for certificate in certificates],
        "compiled": [certificate.provenance.compiled for certificate in certificates],
    }
    lists = {}
    for name in (info.name for info in measures):
        plain[_lower_at_0(name)] = [
            each.curve(name).lower(0.0) if name in each.claims else None for each in certificates
        ]
        histograms = [each[name] for each in evidence]
        lists[_counters(name)] = _ragged([each.occupied for each in histograms], np.int32)
        lists[_counts(name)] = _ragged([each.counts[each.occupied] for each in histograms], np.int64)
    return {**{name: pa.array(values, type=schema.field(name).type) for name, values in plain.items()}, **lists}


def _ragged(rows: Sequence[NDArray[np.int64]], dtype: type[np.integer[Any]]) -> pa.ListArray:
    offsets = np.concatenate(([0], np.cumsum([row.size for row in rows]))).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(rows).astype(dtype)))


def _rows(part: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> Iterator[Mapping[str, Any]]:
    table = read_part(part, columns=columns, schema=schema).sort_by("index")
    # Lists of counts stay NumPy arrays: as Python numbers they would take a hundred times as long.
    found = {name: table.column(name).combine_chunks() for name in table.column_names}
    lists = {name: column for name, column in found.items() if pa.types.is_list(column.type)}
    for name, column in lists.items():
        if column.null_count:
            raise RunError(f"{part} has no {name}, which run.json lists; restore it from a copy, or certify again")
    plain = {name: column.to_pylist() for name, column in found.items() if name not in lists}
    for row in range(len(table)):
        yield {
            **{name: values[row] for name, values in plain.items()},
            **{name: column[row].values.to_numpy() for name, column in lists.items()},
        }


@dataclass(frozen=True)
class _CertificateSettings:
    """What all certificates of a run share."""

    n0: int
    alpha: float
    claims: tuple[str, ...]
    sides: Sides
    method: Method
    noise: Noise
    measures: tuple[MeasureInfo, ...]
    provenance: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "_CertificateSettings":
        noise = recorded_noise(config)
        if noise is None:
            raise RunError("run.json says nothing of the noise of its certificates; restore it from a copy")
        return cls(
            int(config["n0"]),
            float(config["alpha"]),
            tuple(config["claims"]),
            check_sides(config["sides"]),
            method_named(config["method"]),
            noise,
            recorded_measures(config),
            config["provenance"],
        )


def _entry(row: Mapping[str, Any], settings: _CertificateSettings) -> Entry:
    histograms = {
        info: ScoreHistogram.from_occupied(
            row[_counters(info.name)],
            row[_counts(info.name)],
            bins=row["bins"],
            support=info.support,
            noise=settings.noise,
        )
        for info in settings.measures
    }
    certificate = Certificate(
        predicted=row["predicted"],
        n0=settings.n0,
        alpha=settings.alpha,
        claims=settings.claims,
        sides=settings.sides,
        method=settings.method,
        evidence=Evidence(row["n"], row["votes"], histograms),
        provenance=Provenance.from_dict(
            {
                **settings.provenance,
                "index": row["index"],
                "seconds": row["seconds"],
                "compiled": bool(row["compiled"]),  # nothing is said in runs from before there was a choice
            }
        ),
    )
    return Entry(row["index"], row["label"], certificate)
