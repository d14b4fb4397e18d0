"""Certify a dataset into a run on disk."""

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from holdfast.noise import check_seed
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.exports import export_log
from holdfast.runs.folder import RunFolder
from holdfast.runs.store import Entry, bytes_per_entry, write_part
from holdfast.runs.tsv import write_log
from holdfast.smoothed import Settings, SmoothedClassifier
from holdfast.zoo.datasets.labelled import Images, LabelledData, LabelledInputs

_FLUSH_S = 20.0
_EXPORTS = {"label": "exports/cohen.tsv", "score": "exports/paper_score.tsv", "margin": "exports/paper_margin.tsv"}


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

    ``inputs`` is an array with one input per row (images of bytes, or floats in the units of sigma).
    """
    data = LabelledInputs(
        name, np.asarray(inputs), np.asarray(labels, dtype=np.int64), np.arange(len(inputs)), tuple(label_names)
    )
    return execute(smoothed, Plan(data, settings or Settings(), Path(out), seed), progress=progress)


def execute(smoothed: SmoothedClassifier, plan: Plan, *, progress: bool | None = None) -> CertifiedRun:
    """Certify every input of the plan; an interruption keeps what was finished.

    The first certificates are made before the folder is, so that a refused input or model leaves nothing behind.
    """
    data, settings = plan.data, plan.settings
    seed = check_seed(plan.seed)
    stream = smoothed.stream(Images(data), data.indices.tolist(), settings, seed=seed, progress=progress)
    folder: RunFolder | None = None
    waiting: list[Entry] = []
    parts, flushed = 0, time.monotonic()
    status = "interrupted"
    RunFolder.refuse(plan.out, bytes_needed=bytes_per_entry(settings.n) * len(data))
    try:
        for position, certificate in enumerate(stream):
            if folder is None:
                config = _config(plan, certificate.provenance.to_dict(), smoothed)
                folder = RunFolder.create(plan.out, config)
            waiting.append(Entry(int(data.indices[position]), int(data.labels[position]), certificate))
            if time.monotonic() - flushed > _FLUSH_S:
                write_part(folder, parts, waiting)
                waiting, parts, flushed = [], parts + 1, time.monotonic()
        status = "complete"
    finally:
        if folder is not None:
            if waiting:
                write_part(folder, parts, waiting)
            folder.write_config({**folder.config(), "status": status})
    assert folder is not None
    run = CertifiedRun(RunFolder.open(plan.out))
    for measure in run.measures:
        folder.write(_EXPORTS[measure], partial(write_log, log=export_log(run, measure)))
    return run


def _config(plan: Plan, provenance: dict[str, Any], smoothed: SmoothedClassifier) -> dict[str, Any]:
    settings = plan.settings
    return {
        "kind": "certified",
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": plan.data.name,
        "inputs": len(plan.data),
        "label_names": list(plan.data.label_names),
        "sigma": smoothed.sigma,
        "n": settings.n,
        "n0": settings.n0,
        "alpha": settings.alpha,
        "claims": list(settings.claims),
        "sides": settings.sides,
        "method": settings.method.name,
        "provenance": {key: value for key, value in provenance.items() if key not in ("index", "seconds")},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{package: version(package) for package in ("numpy", "scipy", "pyarrow")},
        },
        "platform": platform.platform(),
        **(plan.notes or {}),
    }
