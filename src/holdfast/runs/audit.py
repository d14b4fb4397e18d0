"""An audit of a run: what attacks found beside its certificates, kept in the run's folder."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import RunError, reading
from holdfast.runs.folder import RunFolder
from holdfast.runs.parquet import read_parquet
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_count, format_number

AUDIT = "audit.parquet"
FORMAT = 1
_NOTES, _DIGEST = b"holdfast", b"sha256"


@dataclass(frozen=True)
class Violation:
    """An attacked input whose average is below what was certified, beyond sampling error."""

    index: int
    radius: float
    measure: str
    certified: float
    upper: float

    def __str__(self) -> str:
        return (
            f"input {self.index}, radius {format_number(self.radius)}: the average {self.measure} is certified to be at least "
            f"{floor_decimals(self.certified, 4)}, and an attacked input has at most {ceil_decimals(self.upper, 4)}"
        )


@dataclass(frozen=True)
class AuditRow:
    """Averages over the audited inputs, for one measure and radius.

    Attributes:
        clean: of the measure's averages at the inputs, estimated from the certificates' own copies.
        certified: of the certified lower bounds.
        attacked: of the averages at the attacked inputs, estimated.
    """

    measure: str
    radius: float
    inputs: int
    clean: float
    certified: float
    attacked: float
    violations: int


@dataclass(frozen=True)
class AuditNotes:
    """How an audit was made.

    Attributes:
        inputs: how many were attacked, at each radius.
        measure: whose average was attacked; the others are looked at where that led.
        n: fresh noisy copies of each attacked input.
        error: how likely it is at most that any violation is due to the audit's own sampling.
        alpha: of each certificate.
        shape: of an input.
        run: identifies the run; see :func:`run_identity`.
        gradients: whether the model has gradients; if not, it was attacked by its scores alone.
    """

    inputs: int
    measure: str
    measures: tuple[str, ...]
    radii: tuple[float, ...]
    n: int
    error: float
    alpha: float
    attack: Mapping[str, Any]
    shape: tuple[int, ...]
    run: str
    seed: str
    made: str
    version: str
    gradients: bool = True

    @property
    def level(self) -> float:
        """The share of ``error`` of each upper bound: one for each input, radius and measure (Bonferroni)."""
        return self.error / (self.inputs * len(self.radii) * len(self.measures))

    @property
    def by_chance(self) -> str:
        """What a violation may be due to besides a wrong bound, in words."""
        return (
            f"Each certificate may be false with probability {format_number(self.alpha)}, on average at most "
            f"{self.alpha * self.inputs:.3g} among {format_count(self.inputs, 'input')}; and with probability at most "
            f"{format_number(self.error)} a violation is due to the sampling of the audit itself."
        )


@dataclass(frozen=True, eq=False)
class Audit:
    """One row for each input and radius: ``index``, ``radius``, ``distance``, ``image``, and four columns for each measure.

    Guarantee:
        If all certificates are true, there is no violation, with probability at least ``1 - notes.error``: the attacked points
        were chosen on other noisy copies than those that their averages are bounded by.
    """

    notes: AuditNotes
    table: pa.Table

    def column(self, name: str, measure: str | None = None) -> NDArray[Any]:
        """``index``, ``radius``, ``distance``; of a measure ``clean``, ``certified``, ``attacked`` and ``upper``."""
        found: NDArray[Any] = self.table.column(name if measure is None else column_name(measure, name)).to_numpy()
        return found

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Every certified lower bound that is above the upper bound of an attacked input's average."""
        return tuple(self._violations())

    def _violations(self) -> Iterator[Violation]:
        index, radius = self.column("index"), self.column("radius")
        for measure in self.notes.measures:
            certified, upper = self.column("certified", measure), self.column("upper", measure)
            for k in np.flatnonzero(certified > upper):
                yield Violation(int(index[k]), float(radius[k]), measure, float(certified[k]), float(upper[k]))

    def rows(self) -> list[AuditRow]:
        """The audit in a few numbers: one row for each measure and radius."""
        radius, found = self.column("radius"), []
        for measure in self.notes.measures:
            names = ("clean", "certified", "attacked", "upper")
            clean, certified, attacked, upper = (self.column(name, measure) for name in names)
            for each in self.notes.radii:
                at = radius == each
                means = {"clean": clean[at].mean(), "certified": certified[at].mean(), "attacked": attacked[at].mean()}
                violations = int((certified > upper)[at].sum())
                found.append(AuditRow(measure, each, int(at.sum()), **means, violations=violations))
        return found

    def to_dict(self) -> dict[str, Any]:
        """For programs: how it was made, averages, and every violation. The seed is left out: reports are shown to others."""
        made = {name: value for name, value in vars(self.notes).items() if name not in ("run", "seed", "shape")}
        return {
            **made,
            "by_chance": self.notes.by_chance,
            "averages": [asdict(row) for row in self.rows()],
            "violations": [asdict(violation) for violation in self.violations],
        }

    def images(self) -> list[tuple[int, tuple[NDArray[np.uint8], ...]]]:
        """Of the inputs whose attacked images were kept: the index, and an image for each radius."""
        found: dict[int, dict[float, NDArray[np.uint8]]] = {}
        columns = (self.table.column(name).to_pylist() for name in ("index", "radius", "image"))
        for index, radius, image in zip(*columns, strict=True):
            if image is not None:
                pixels = np.frombuffer(image, dtype=np.uint8).reshape(self.notes.shape)
                found.setdefault(index, {})[radius] = pixels
        radii = self.notes.radii
        return [(index, tuple(at[r] for r in radii)) for index, at in found.items() if len(at) == len(radii)]

    def write(self, folder: RunFolder) -> None:
        """Keep it in a run's folder, in place of an earlier one; nothing else there is touched. Requires the folder's lock."""
        notes = json.dumps({"format": FORMAT, **vars(self.notes)}).encode()
        table = self.table.replace_schema_metadata({_NOTES: notes, _DIGEST: _digest(self.table, notes)})
        options = {"compression": "zstd", "write_page_checksum": True}
        folder.write(AUDIT, lambda path: pq.write_table(table, path, **options), replace=True)

    @classmethod
    def read(cls, folder: RunFolder) -> "Audit | None":
        """That of a run's folder; None if there is none."""
        path = folder.path / AUDIT
        if not path.exists():
            return None
        remedy = "make it again with 'holdfast audit', or remove it"
        with reading(path, RunError, "cannot be read", remedy=remedy):
            table = read_parquet(path)
            written = table.schema.metadata
            if written[_DIGEST] != _digest(table, written[_NOTES]):
                raise ValueError("it is not as it was written")
            notes = json.loads(written[_NOTES])
            if notes.pop("format") != FORMAT:
                raise ValueError("another format")
            if notes["run"] != run_identity(folder.config()):
                raise ValueError("it is of another run")
            lists = {name: tuple(notes[name]) for name in ("measures", "radii", "shape")}
            found = cls(AuditNotes(**{**notes, **lists}), table)
            _ = found.to_dict(), found.images()  # what follows from it can be computed
        return found


def run_identity(config: Mapping[str, Any]) -> str:
    """Tells runs apart without telling the seed."""
    made = config.get("provenance")
    known = [config.get("created"), made.get("seed") if isinstance(made, Mapping) else None]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _digest(table: pa.Table, notes: bytes) -> bytes:
    """Of everything that is read: no manifest lists an audit, which may be made after a run is signed."""
    return hashlib.sha256(notes + repr(table.to_pydict()).encode()).hexdigest().encode()


def column_name(measure: str, name: str) -> str:
    """What a measure's column is called in the table."""
    return f"{measure}_{name}"


def audit_schema(measures: Sequence[str]) -> pa.Schema:
    """The columns of an audit of these measures."""
    numbers = [
        column_name(measure, name) for measure in measures for name in ("clean", "certified", "attacked", "upper")
    ]
    return pa.schema(
        [
            ("index", pa.int64()),
            ("radius", pa.float64()),
            ("distance", pa.float64()),
            *((name, pa.float64()) for name in numbers),
            ("image", pa.binary()),
        ]
    )
