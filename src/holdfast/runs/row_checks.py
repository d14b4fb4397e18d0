"""Whether the rows of a run fit each other and its configuration: counts, and what was computed from them."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.bounds import bound
from holdfast.bounds.named import method_named
from holdfast.certificates.evidence import possible_votes
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import HoldfastError
from holdfast.measures import MeasureInfo
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.store import (
    ADDED,
    counters_column,
    counts_column,
    lower_at_0,
    parts_of,
    read_part,
    rows_of,
    schema_of,
)
from holdfast.scores import OccupiedCounters
from holdfast.scores.grid import DEFAULT_BINS, Grid

LAST_DIGITS = 1e-9
"""How far numbers may be apart, relative to their size, that were computed by two versions of SciPy."""


class RowChecks:
    """Goes through all rows of a run once; then :meth:`problems` has a sentence for each kind of fault."""

    def __init__(self, run: CertifiedRun) -> None:
        self._run, self._config = run, run.config
        self._measures, self._method = run.counted, method_named(run.config["method"])
        self._alpha = float(run.config["alpha"]) / len(run.measures)
        self._bins = self._config.get("compacted", {}).get("bins", DEFAULT_BINS)
        self._faults: dict[str, list[str]] = defaultdict(list)
        self._labels: dict[int, int] = {}

    @property
    def rows(self) -> int:
        """How many inputs there are."""
        return len(self._labels)

    def problems(self) -> Iterator[str]:
        """Every kind of fault with its first example."""
        yield from self._unreadable()
        for kind, found in self._faults.items():
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            yield f"{kind}: {found[0]}{more}"
        yield from self._wrong_inputs()

    def _unreadable(self) -> Iterator[str]:
        """Reads everything on the way."""
        schema = schema_of(self._measures)
        for path in parts_of(self._run.folder):
            try:
                stored = pq.read_schema(path)
                expected = [each for each in schema if each.name not in ADDED or each.name in stored.names]
                if [(each.name, each.type) for each in stored] != [(each.name, each.type) for each in expected]:
                    yield f"{path.name} has other columns than its measures need: {', '.join(stored.names)}"
                    continue
                for row in rows_of(read_part(path, None, schema)):
                    self._check(row)
            except (HoldfastError, OSError, ValueError) as error:
                yield f"{path.name} cannot be read: {error}"

    def _check(self, row: Mapping[str, Any]) -> None:
        where = f"input {row['index']}"
        if row["index"] in self._labels:
            self._faults["an input is there twice"].append(where)
        self._labels[row["index"]] = row["label"]
        faults = list(self._inconsistent(row))
        if not faults:  # or what is recomputed would be of other counts
            faults = list(self._other_summary(row))
        for kind, detail in faults:
            self._faults[kind].append(f"{where}, {detail}" if detail else where)

    def _inconsistent(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Numbers that cannot be, whatever was sampled."""
        whole = ("index", "label", "predicted", "n", "votes", "bins")
        if any(row[name] is None or row[name] < 0 for name in whole):
            yield "a number is missing or negative", ", ".join(f"{name} {row[name]}" for name in whole)
            return
        if row["seconds"] is None or not 0 <= row["seconds"] < math.inf:
            yield "the time is not a time", f"seconds {row['seconds']}"
        if row["shift"] is not None and not 0 <= row["shift"] < math.inf:
            yield "the shift is not a distance", f"shift {row['shift']}"
        if row["n"] != self._config["n"]:
            yield "the number of copies is not run.json's", f"n {row['n']} instead of {self._config['n']}"
        if row["votes"] > row["n"]:
            yield "there are more votes than copies", f"{row['votes']} of {row['n']}"
        if row["bins"] != self._bins:
            yield "the histogram's bins are others", f"{row['bins']} instead of {self._bins}"
            return
        for info in self._measures:
            counters, counts = row[counters_column(info.name)], row[counts_column(info.name)]
            if not _is_histogram(counters, counts, self._bins, row["n"]):
                yield f"the {info.name} is no histogram of n copies", f"{counts.sum()} counted, n {row['n']}"
            else:
                yield from _other_votes(row["votes"], info, _scores(row, info, self._run))

    def _other_summary(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What was computed from the counts when they were stored, computed again."""
        run, claims = self._run, self._run.measures
        seen = run.seen(row["shift"] or 0.0)
        label = LabelCertificate(row["votes"], row["n"], alpha=self._alpha, noise=seen)
        computed = {"label_radius": label.radius if "label" in claims else None}
        wins = "label" in claims and label.certified
        for info in self._measures:
            computed[lower_at_0(info.name)] = None
            if info.name in claims:
                scores = _scores(row, info, run).under(seen, run.order(row["index"]))
                curve = bound(scores, alpha=self._alpha, method=self._method, sides=run.config["sides"])
                found = float(curve.lower(0.0))
                computed[lower_at_0(info.name)] = found
                wins |= self._method.guaranteed and info.winning is not None and found > info.winning
        for name, value in computed.items():
            if not _same(row[name], value):
                yield f"{name} does not follow from the counts", f"{row[name]} stored, {value} computed"
        # Holdfast 0.1.0 had another rule for it; what it stored is not read.
        if "measures" in run.config and row["abstained"] is not (not wins):
            yield "abstained does not follow from the counts", f"{row['abstained']} stored, {not wins} computed"

    def _wrong_inputs(self) -> Iterator[str]:
        """The number of inputs, and what run.json has of their indices and labels."""
        asked, status = self._config.get("inputs"), self._config.get("status")
        complete = status == "complete"
        if self.rows == 0:
            yield "there are no certificates"
        if isinstance(asked, int) and (self.rows > asked or (complete and self.rows < asked)):
            yield f"run.json says {asked} inputs, and there are {self.rows}"
        elif complete and "fingerprints" in self._config:
            order = sorted(self._labels)
            stored = {"indices": order, "labels": [self._labels[index] for index in order]}
            for name, values in stored.items():
                if self._config["fingerprints"].get(name) != _digest(values):
                    yield f"the {name} of the inputs are not those of the fingerprint in run.json"


def _scores(row: Mapping[str, Any], info: MeasureInfo, run: CertifiedRun) -> OccupiedCounters:
    counters, counts = row[counters_column(info.name)], row[counts_column(info.name)]
    return OccupiedCounters(counters, counts, Grid(info.support, row["bins"]), noise=run.noise)


def _is_histogram(counters: NDArray[Any], counts: NDArray[Any], bins: int, n: int) -> bool:
    """Ascending counters of the grid, each of which counted something: n in all."""
    ascending = counters.size > 0 and counters[0] >= 0 and counters[-1] <= bins and bool((np.diff(counters) > 0).all())
    return ascending and counters.size == counts.size and bool((counts > 0).all()) and int(counts.sum()) == n


def _other_votes(votes: int, info: MeasureInfo, scores: OccupiedCounters) -> Iterator[tuple[str, str]]:
    within = possible_votes(info, scores)
    if within is not None and not within[0] <= votes <= within[1]:
        yield f"the votes do not fit the {info.name}s", f"{votes} votes, expected {within[0]} to {within[1]}"


def _same(stored: float | None, computed: float | None) -> bool:
    if stored is None or computed is None:
        return stored is computed
    return math.isclose(stored, computed, rel_tol=LAST_DIGITS, abs_tol=LAST_DIGITS)


def _digest(values: list[int]) -> str:
    return hashlib.sha256(np.array(values, dtype=np.int64).data).hexdigest()
