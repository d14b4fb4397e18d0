"""Attack the inputs of a run, and hold its certificates against what is found."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.attacks import Aim, Attack, Attacked, attack_many
from holdfast.errors import InvalidArgument, RunError
from holdfast.inputs import CheckedInputs, InputSource, range_of
from holdfast.models.spot_check import other_answers
from holdfast.noise import BYTE, check_seed
from holdfast.progress import progress_bar
from holdfast.runs.audit import Audit, AuditNotes, audit_schema, column_name, run_identity
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.claims import check_certified
from holdfast.runs.folder import now
from holdfast.runs.run import Run
from holdfast.runs.store import Entry
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_count, check_radii, check_share
from holdfast.version import installed_version

RADII = (0.5, 1.0, 1.5, 2.0)
"""Where to attack unless told otherwise, in units of the noise's scale."""
_PICTURES = 2_000_000
"""Bytes of attacked images that are kept."""
_Row = dict[str, Any]


@dataclass(frozen=True)
class AuditPlan:
    """What an audit is asked.

    Attributes:
        radii: where to attack; None for half to twice the noise's scale.
        most: inputs at most, the first ones of the run; None for all.
        measure: whose average is attacked; None for the first that the run claims.
        n: fresh noisy copies of each attacked input.
        error: how likely it may be that any violation is due to the audit's own sampling.
        attack: how hard to look.
        seed: keys all noise, for a replay; secret by default.
    """

    radii: Sequence[float] | None = None
    most: int | None = None
    measure: str | None = None
    n: int = 1_000
    error: float = 1e-3
    attack: Attack = field(default_factory=Attack)
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.radii is not None and np.size(check_radii(self.radii)) == 0:
            raise InvalidArgument(f"radii must be one or more numbers, got {self.radii!r}")
        if self.most is not None:
            check_count("most", self.most)
        check_count("n", self.n)
        check_share("error", self.error)

    def radii_for(self, run: CertifiedRun) -> tuple[float, ...]:
        """In ascending order."""
        given = [round(k * run.noise.scale, 6) for k in RADII] if self.radii is None else self.radii
        return tuple(sorted({float(radius) for radius in given}))


def audit_run(
    smoothed: SmoothedClassifier,
    run: Run,
    inputs: InputSource,
    plan: AuditPlan | None = None,
    *,
    progress: bool | None = None,
) -> Audit:
    """Attack the inputs of a run at several radii, and keep what is found in its folder; ``inputs`` are in the run's order.

    Guarantee:
        The audit's.
    Requires:
        The network, the noise and the precision of the run (compared), and its inputs.
    """
    if not (isinstance(smoothed, SmoothedClassifier) and isinstance(run, Run)):
        raise InvalidArgument(
            f"expected audit_run(SmoothedClassifier(net, sigma), Run.open(path), inputs), got {type(smoothed).__name__} and "
            f"{type(run).__name__}"
        )
    asked = plan or AuditPlan()
    certified, claimed = _checked(smoothed, run, len(inputs))
    radii, measure = asked.radii_for(certified), asked.measure or claimed[0]
    if measure not in claimed:
        raise InvalidArgument(f"measure must be one that {run.path} claims: {', '.join(claimed)}, got {measure!r}")
    seed, count = check_seed(asked.seed), min(len(run), asked.most or len(run))
    at = CheckedInputs(inputs, smoothed.inputs, smoothed.noise, certified.step)
    notes = AuditNotes(
        inputs=count,
        measure=measure,
        measures=claimed,
        radii=radii,
        n=asked.n,
        error=asked.error,
        alpha=float(run.config["alpha"]),
        attack=asdict(asked.attack),
        shape=tuple(at[0].x.shape),
        run=run_identity(run.config),
        seed=f"{seed:#x}",
        made=now(),
        version=installed_version(),
    )
    known: list[_Row] = []

    def aims() -> Iterator[Aim]:
        for k, entry in enumerate(islice(certified, count)):
            point = at[k]
            for row in _certified(entry, radii, claimed):
                known.append(row)
                yield Aim(point.x, entry.certificate.predicted, row["radius"], point.shift)

    pictured = _PICTURES // (len(radii) * math.prod(notes.shape)) * len(radii)
    image = range_of(smoothed.inputs, notes.shape) is not None and notes.shape[0] in (1, 3)
    options = {"measure": measure, "attack": asked.attack, "n": asked.n, "seed": seed}
    bar = progress_bar("attacking", count * len(radii), unit="points", show=progress)
    with run.folder.locked(), bar as on_points:  # from the start: a folder that cannot be written to is refused at once
        for k, found in enumerate(attack_many(smoothed, aims(), certified.step, **options)):  # type: ignore[arg-type]
            known[k] |= _attacked(found, notes, keep=image and k < pictured)
            on_points(1)
        table = pa.Table.from_pylist(known, schema=audit_schema(claimed))
        audit = Audit(replace(notes, gradients=found.gradients), table)
        audit.write(run.folder)
    return audit


def _checked(smoothed: SmoothedClassifier, run: Run, inputs: int) -> tuple[CertifiedRun, tuple[str, ...]]:
    """The run and the measures that it claims; refused if it is not about this classifier, or claims none."""
    known = check_certified(run)
    if inputs != len(run):
        raise InvalidArgument(f"inputs must be the {len(run)} of {run.path}, in its order, got {inputs}")
    claimed = tuple(name for name in run.measures if name != "label")
    if not claimed:
        raise InvalidArgument(
            f"{run.path} claims the label only; an attack is held against averages: certify a measure"
        )
    here = {measure.info.name: measure.info for measure in smoothed.measures}
    precision = run.config.get("provenance", {}).get("precision")
    pairs = {
        "network": (run.fingerprint, run.fingerprint and smoothed.fingerprint),
        "noise": (run.noise, smoothed.noise),
        "grid": (known.step, known.step if smoothed.step is None else smoothed.step),
        "precision": (precision, precision and smoothed.model.precision),
        **{
            f"measure {name}": (run.measure(name).support, here[name].support if name in here else None)
            for name in claimed
        },
    }
    fault = "" if run.spot_check is None else other_answers(smoothed.model, run.spot_check)
    if fault:
        raise RunError(f"{run.path} is about another network: on the rows of its spot check, the {fault}")
    for what, (theirs, ours) in pairs.items():
        if theirs != ours:
            raise RunError(
                f"{run.path} is about another {what}: {theirs} there and {ours} here; give what it was certified with"
            )
    return known, claimed


def _certified(entry: Entry, radii: Sequence[float], measures: Sequence[str]) -> list[_Row]:
    """What the certificate says at each radius, and the average at the input itself."""
    certificate = entry.certificate
    rows: list[_Row] = [{"index": entry.index, "radius": radius} for radius in radii]
    for measure in measures:
        lower, clean = certificate.curve(measure).lower(radii), certificate.evidence[measure].survival_lower().mean
        for row, bound in zip(rows, lower, strict=True):
            row |= {column_name(measure, "clean"): clean, column_name(measure, "certified"): float(bound)}
    return rows


def _attacked(found: Attacked, notes: AuditNotes, *, keep: bool) -> _Row:
    """What the attack found, and the image if it is one of bytes."""
    row: _Row = {"distance": found.distance, "image": None}
    for measure in notes.measures:
        row[column_name(measure, "attacked")] = found.mean(measure)
        row[column_name(measure, "upper")] = found.upper(measure, notes.level)
    pixels = np.rint(found.x / BYTE)
    if keep and pixels.min() >= 0 and pixels.max() <= 255:
        row["image"] = pixels.astype(np.uint8).tobytes()
    return row
