"""Certificates as Parquet: one row an input, with the counts from which every bound can be computed again."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.bounds.named import method_named
from holdfast.certificate import Certificate, Provenance
from holdfast.errors import RunError
from holdfast.evidence import Evidence
from holdfast.runs.folder import RunFolder
from holdfast.scores import ScoreHistogram
from holdfast.validation import check_sides

_PARTS = "certificates"
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
    ]
)


@dataclass(frozen=True)
class Entry:
    """One input of a run: its index in the dataset, its label, and its certificate."""

    index: int
    label: int
    certificate: Certificate


def bytes_per_entry(n: int) -> int:
    """A generous guess, for asking whether the disk has room: two histograms, a few bytes an occupied bin."""
    return 2_000 + 2 * 6 * min(n, 16_385)


def write_part(folder: RunFolder, number: int, entries: Iterable[Entry]) -> None:
    """Write a few entries as the next part."""
    table = pa.Table.from_pylist([_row(entry) for entry in entries], schema=_SCHEMA)
    folder.write(f"{_PARTS}/part-{number:05d}.parquet", lambda path: pq.write_table(table, path, compression="zstd"))


def read_entries(folder: RunFolder) -> Iterator[Entry]:
    """All entries of a run, in the order of their index."""
    config = folder.config()
    for row in sorted(_rows(folder.path / _PARTS), key=lambda row: int(row["index"])):
        yield _entry(row, config)


def _rows(parts: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(parts.glob("part-*.parquet")):
        try:
            yield from pq.read_table(path, schema=_SCHEMA).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise RunError(f"{path} cannot be read ({error}); restore it from a copy, or certify again") from error


def _row(entry: Entry) -> dict[str, Any]:
    certificate, evidence = entry.certificate, entry.certificate.evidence
    score, margin = evidence.score, evidence.margin
    claims = certificate.claims
    return {
        "index": entry.index,
        "label": entry.label,
        "predicted": certificate.predicted,
        "abstained": certificate.abstained,
        "n": certificate.n,
        "votes": evidence.votes,
        "label_radius": certificate.label_radius if "label" in claims else None,
        "score_lower_at_0": certificate.score.lower(0.0) if "score" in claims else None,
        "margin_lower_at_0": certificate.margin.lower(0.0) if "margin" in claims else None,
        "bins": score.grid.bins,
        "score_counters": score.occupied,
        "score_counts": score.counts[score.occupied],
        "margin_counters": margin.occupied,
        "margin_counts": margin.counts[margin.occupied],
        "seconds": certificate.provenance.seconds,
    }


def _entry(row: Mapping[str, Any], config: Mapping[str, Any]) -> Entry:
    sigma = float(config["sigma"])

    def histogram(name: str, support: tuple[float, float]) -> ScoreHistogram:
        return ScoreHistogram.from_occupied(
            row[f"{name}_counters"], row[f"{name}_counts"], bins=row["bins"], support=support, sigma=sigma
        )

    certificate = Certificate(
        predicted=row["predicted"],
        n0=int(config["n0"]),
        alpha=float(config["alpha"]),
        claims=tuple(config["claims"]),
        sides=check_sides(config["sides"]),
        method=method_named(config["method"]),
        evidence=Evidence(row["n"], row["votes"], histogram("score", (0.0, 1.0)), histogram("margin", (-1.0, 1.0))),
        provenance=Provenance.from_dict({**config["provenance"], "index": row["index"], "seconds": row["seconds"]}),
    )
    return Entry(row["index"], row["label"], certificate)
