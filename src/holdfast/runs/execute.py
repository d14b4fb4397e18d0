"""Certify a dataset into a run on disk."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from holdfast.certificates.settings import Settings
from holdfast.errors import InvalidArgument
from holdfast.noise import check_seed
from holdfast.progress import ignore
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.exports import export_log, export_name
from holdfast.runs.folder import RunFolder
from holdfast.runs.lock import locked
from holdfast.runs.recorded import record
from holdfast.runs.resume import RUNNING, ResumeState, begun, check_same, data_fingerprints
from holdfast.runs.store import Entry, as_table, bytes_per_entry
from holdfast.runs.tsv import write_log
from holdfast.runs.writer import writing
from holdfast.smoothed import SmoothedClassifier
from holdfast.zoo.datasets.labelled import Images, LabelledData, LabelledInputs


@dataclass(frozen=True, eq=False)
class Plan:
    """What to certify, how, and where to put it."""

    data: LabelledData
    settings: Settings
    out: Path
    seed: int | None = None
    notes: Mapping[str, Any] | None = None


def certify_run(
    smoothed: SmoothedClassifier,
    inputs: NDArray[np.float32],
    labels: ArrayLike,
    *,
    out: str | Path,
    settings: Settings | None = None,
    seed: int | None = None,
    name: str = "inputs",
    label_names: Sequence[str] = (),
    progress: bool | None = None,
) -> CertifiedRun:
    """Certify labelled inputs of your own with a network of your own, into a run that ``holdfast report`` reads.

    ``inputs`` is an array with one input per row (images of bytes, or floats in the units of the noise). If ``out`` holds an
    unfinished run of the same question, it is continued: nothing that was finished is sampled again.
    """
    known, classes = np.asarray(inputs), np.asarray(labels)
    if known.ndim == 0:
        raise InvalidArgument(f"inputs must be an array with one input per row, got {inputs!r}")
    if classes.ndim != 1 or classes.dtype.kind not in "iu":
        raise InvalidArgument(
            f"labels must be one class number for each input, got an array of {classes.dtype} with shape {classes.shape}"
        )
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidArgument(f"settings must be holdfast.Settings(n=...), got {settings!r}")
    data = LabelledInputs(name, known, classes.astype(np.int64), np.arange(len(known)), tuple(label_names))
    return execute(smoothed, Plan(data, settings or Settings(), Path(out), seed), progress=progress)


def execute(
    smoothed: SmoothedClassifier, plan: Plan, *, progress: bool | None = None, say: Callable[[str], None] = ignore
) -> CertifiedRun:
    """Certify every input of the plan; an interruption keeps finished certificates, and the same plan resumes from there.

    The first certificates are made before the folder is, so that a refused input or model leaves nothing behind.
    """
    data = plan.data
    settings = plan.settings.resolved([measure.info for measure in smoothed.measures], smoothed.noise)
    config = _config(plan, settings, smoothed, check_seed(plan.seed))
    with ExitStack() as lock:
        found: ResumeState | None = None
        if RunFolder.holds_run(plan.out):
            found = _continued(plan, config, lock)
            say(f"resuming: {len(found.finished)} of {len(data)} were finished")
        else:
            RunFolder.refuse(plan.out)
        rest = np.flatnonzero(~np.isin(data.indices, found.finished if found else []))
        RunFolder.check_room(plan.out, bytes_needed=bytes_per_entry(settings.n, len(smoothed.measures)) * len(rest))
        seed = found.seed if found else int(config["provenance"]["seed"], 16)
        stream = smoothed.stream(
            Images(data, rest), data.indices[rest].tolist(), settings, seed=seed, progress=progress
        )
        with writing(_New(plan.out, config, lock), found) as writer:
            done = 0
            for position, certificate in zip(rest, stream if len(rest) else (), strict=True):
                writer.add(as_table([Entry(int(data.indices[position]), int(data.labels[position]), certificate)]))
                done += 1
            assert done == len(rest), "every input has its certificate before a run is called complete"
            writer.flush()
            _write_exports(writer.folder)
    return CertifiedRun(RunFolder.open(plan.out))


@dataclass
class _New:
    """Creates and locks the run's folder when the first certificates are written; opens it again after an interruption."""

    path: Path
    config: Mapping[str, Any]
    lock: ExitStack
    mine: bool = False

    def __call__(self) -> RunFolder:
        if not self.mine:
            RunFolder.make(self.path)
            with ExitStack() as attempt:
                attempt.enter_context(locked(self.path))
                RunFolder.refuse(self.path)  # somebody may have been faster
                self.lock.push(attempt.pop_all())
            self.mine = True
        return RunFolder.open(self.path) if RunFolder.holds_run(self.path) else RunFolder.create(self.path, self.config)


def _continued(plan: Plan, config: Mapping[str, Any], lock: ExitStack) -> ResumeState:
    folder = RunFolder.open(plan.out)
    check_same(folder, config, plan.seed)  # before the lock: what is refused is not touched at all
    lock.enter_context(locked(plan.out))
    check_same(folder, config, plan.seed)
    found = begun(folder)
    recorded = folder.config()
    folder.write_config({**recorded, "status": RUNNING, "resumed": [*recorded.get("resumed", []), _now()]})
    return found


def _write_exports(folder: RunFolder) -> None:
    run = CertifiedRun(folder)
    for measure in run.measures:
        folder.write(export_name(measure), partial(write_log, log=export_log(run, measure)), replace=True)


def _config(plan: Plan, settings: Settings, smoothed: SmoothedClassifier, seed: int) -> dict[str, Any]:
    provenance = smoothed.provenance(seed, 0, 0.0).to_dict()
    return {
        "kind": "certified",
        "status": RUNNING,
        "created": _now(),
        "data": plan.data.name,
        "inputs": len(plan.data),
        "label_names": list(plan.data.label_names),
        **record(smoothed.noise, [measure.info for measure in smoothed.measures]),
        "n": settings.n,
        "n0": settings.n0,
        "alpha": settings.alpha,
        "claims": list(settings.claims or ()),
        "sides": settings.sides,
        "method": settings.method.name,
        "compile": smoothed.compile,
        "provenance": {key: value for key, value in provenance.items() if key not in ("index", "seconds", "compiled")},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{package: version(package) for package in ("numpy", "scipy", "pyarrow")},
        },
        "fingerprints": {"weights": smoothed.fingerprint, **data_fingerprints(plan.data)},
        "platform": f"{platform.system()} {platform.machine()}",
        **(plan.notes or {}),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
