"""Verify a run: its digests, its signature, and everything that follows from the counts, computed again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from holdfast.errors import RunError
from holdfast.runs.audit import AUDIT
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.config_checks import check_config, config_problems
from holdfast.runs.folder import RunFolder
from holdfast.runs.imported import ImportedRun
from holdfast.runs.manifest import MANIFEST, SPOT_CHECK
from holdfast.runs.row_checks import LAST_DIGITS, RowChecks
from holdfast.runs.run import Run
from holdfast.runs.signature import agreement, signature_problems
from holdfast.runs.tsv import ORIGIN_COLUMNS, export_name, log_lines, with_origin
from holdfast.runs.verification import Check, Verification


def verify(path: str | Path, *, key: Path | None = None) -> Verification:
    """Check a run on disk, and list all that is wrong with it; needs neither the model nor torch.

    Guarantee:
        A changed, missing or added file is found by its digest, unless the manifest was rewritten with it. Then the rest is
        found that contradicts itself: what was computed from the counts, votes, labels, exports. With the ``key`` (a
        public one) of whoever signed the manifest, every change is found.
    Requires:
        That the certificates are true needs the network: see :func:`holdfast.runs.resample.resample`.
    """
    where = Path(path)
    folder, agrees = RunFolder(where), None if key is None else agreement(key)
    if not RunFolder.holds_run(where) and not (where / MANIFEST).exists():
        RunFolder.open(where)  # refuses what is no run
    checks = [_digests(folder)]
    if agrees is not None:
        checks.append(Check.of("signature", f"the signature of {MANIFEST}", lambda: signature_problems(where, agrees)))
    checks.append(Check.of("configuration", "run.json", lambda: config_problems(folder.config())))
    opened = _opened(folder)
    if isinstance(opened, Check):
        return Verification(where, (*checks, opened))
    return Verification(where, (*checks, *_contents(opened), _exports(opened), _spot_check(opened), *_audit(opened)))


def _digests(folder: RunFolder) -> Check:
    found = Check.of("digests", f"files against the SHA-256 digests of {MANIFEST}", folder.changes)
    if not found.problems and not (folder.path / MANIFEST).exists():
        return Check("digests", "no manifest: digests cannot be checked", made=False)
    return found


def _opened(folder: RunFolder) -> Run | Check:
    """The run, whatever its manifest says."""
    try:
        kind = check_config(folder).get("kind")  # or nothing could be computed from the rest
        if kind not in ("certified", "imported"):
            raise RunError(f"run.json says kind {kind!r}, expected certified or imported")
        return CertifiedRun(folder) if kind == "certified" else ImportedRun(folder)
    except RunError as error:
        return Check("contents", "what the run holds", (str(error),))


def _contents(run: Run) -> Iterator[Check]:
    if isinstance(run, ImportedRun):
        yield Check.of("log", "the imported log", run.check)
    if isinstance(run, CertifiedRun):
        said = "rows: counts, votes, inputs, and all that was computed from the counts"
        yield Check.of("rows", said, lambda: RowChecks(run).problems())


def _exports(run: Run) -> Check:
    """Each log in the folder, line by line with what would be exported now."""

    def find() -> Iterator[str]:
        for measure in run.measures:
            path = run.path / export_name(measure)
            if path.exists():
                stored = path.read_bytes().decode("utf-8", errors="replace").splitlines(keepends=True)
                log = run.log_of(measure)
                whole = bool(stored) and stored[0].rstrip().endswith(ORIGIN_COLUMNS[-1])
                if not (whole or run.units):  # as earlier versions wrote them, which knew the input's own units only
                    log = with_origin(log, None)
                computed = list(log_lines(log))
                differ = [
                    k for k, pair in enumerate(zip(stored, computed, strict=False), start=1) if len(set(pair)) > 1
                ]
                if differ or len(stored) != len(computed):
                    line = differ[0] if differ else min(len(stored), len(computed)) + 1
                    yield f"{export_name(measure)} is not what the counts give, from line {line} on"

    return Check.of("exports", "exports, computed again", find)


def _audit(run: Run) -> Iterator[Check]:
    """Where there is one: as it was written, and about this run's bounds."""

    def find() -> Iterator[str]:
        found = run.audit
        if found is None:
            yield f"{AUDIT} is missing"
            return
        places = {int(index): place for place, index in enumerate(run.answers.index)}
        rows = [places[int(index)] for index in found.column("index")]
        columns = [found.notes.radii.index(float(radius)) for radius in found.column("radius")]
        for measure in found.notes.measures:
            bounds = run.lower(measure, run.methods(measure)[0], np.array(found.notes.radii))[rows, columns]
            if np.abs(bounds - found.column("certified", measure)).max() > LAST_DIGITS:
                yield f"{AUDIT} has other bounds on the {measure} than the counts give"

    if (run.path / AUDIT).exists():
        yield Check.of("audit", f"{AUDIT}: as it was written, and about these bounds", find)


def _spot_check(run: Run) -> Check:
    if (run.path / SPOT_CHECK).exists():
        return Check.of("spot-check", "the spot check can be read", lambda: () if run.spot_check else (SPOT_CHECK,))
    return Check("spot-check", "no spot check: only fingerprints tell whether a network is the same", made=False)
