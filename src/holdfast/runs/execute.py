"""Certify a dataset into a run on disk."""

from __future__ import annotations  # help() then shows short names

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from holdfast.certificates.settings import Settings
from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidArgument
from holdfast.inputs import CheckedInputs, InputSource
from holdfast.models.spot_check import other_answers, spot_check_of
from holdfast.noise import check_seed
from holdfast.progress import ignore
from holdfast.runs.calibration_checks import check_whole
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.config_checks import check_config
from holdfast.runs.folder import RUNNING, RunFolder, Sign, now, record
from holdfast.runs.resume import check_answers, data_fingerprints, is_complete
from holdfast.runs.store import Entry, as_table, bytes_per_entry
from holdfast.runs.tsv import export_name, write_log
from holdfast.runs.writer import RunWriter
from holdfast.sampling.engine import Workload
from holdfast.sampling.workers import noisy_rows
from holdfast.scores.rounding import format_count
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_path
from holdfast.zoo.datasets.given import labelled
from holdfast.zoo.datasets.labelled import Images, LabelledData

_OF_EACH = ("index", "seconds", "compiled", "shift")
"""Of a certificate's provenance: what differs from input to input."""
_SPOT_ROWS, _SPOT_NUMBERS = 4, 2**16
"""How many inputs a spot check has a noisy copy of, and how many numbers they may take together, beyond the first."""

_NOT_RESUMED = (
    "if this run is interrupted, it cannot be resumed: the model cannot be compared with itself later, since it is a plain function "
    "or an endpoint without a version (version=, URL#VERSION), or holds hooks or objects without a name"
)


@dataclass(frozen=True, eq=False)
class Plan:
    """What to certify, how, and where to put it; ``sign`` makes a signature of its manifest."""

    data: LabelledData
    settings: Settings
    out: Path
    seed: int | None = None
    notes: Mapping[str, Any] | None = None
    sign: Sign | None = None


def certify_run(
    smoothed: SmoothedClassifier,
    inputs: LabelledData | InputSource,
    labels: ArrayLike | None = None,
    *,
    out: str | Path,
    settings: Settings | None = None,
    seed: int | None = None,
    name: str = "inputs",
    label_names: Sequence[str] = (),
    progress: bool | None = None,
) -> CertifiedRun:
    """Certify labelled inputs of your own with a network of your own, into a run that ``holdfast report`` reads.

    ``inputs`` is an array with one input per row (images of bytes, or floats in the units of the noise) beside its ``labels``, what
    ``holdfast.datasets.load`` returns, or a dataset or list of (input, label) pairs, which is read into memory. If ``out`` holds an
    unfinished run of the same question, it is continued: nothing that was finished is sampled again. A complete one is returned.
    """
    if not isinstance(smoothed, SmoothedClassifier):
        raise InvalidArgument(
            f"expected a SmoothedClassifier(net, sigma=...) to certify, got {type(smoothed).__name__}"
        )
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidArgument(f"settings must be holdfast.Settings(n=...), got {settings!r}")
    folder = check_path("out", out)
    data = labelled(inputs, labels, name=name, label_names=label_names)
    return execute(smoothed, Plan(data, settings or Settings(), folder, seed), progress=progress)


def execute(
    smoothed: SmoothedClassifier, plan: Plan, *, progress: bool | None = None, say: Callable[[str], None] = ignore
) -> CertifiedRun:
    """Certify every input of the plan; an interruption keeps finished certificates, and the same plan resumes from there.

    A run that is complete already is returned as it is.

    The first certificates are made before the folder is, so that a refused input or model leaves nothing behind.
    """
    RunFolder.check_place(plan.out)
    data = plan.data
    settings = plan.settings.resolved([measure.info for measure in smoothed.measures], smoothed.noise)
    step = _step(plan, smoothed)
    config = _config(plan, settings, smoothed, check_seed(plan.seed), step)
    network, spot_check = partial(other_answers, smoothed.model), partial(_spot_check, smoothed, data, step)
    if is_complete(RunFolder(plan.out), config, plan.seed):
        done = CertifiedRun(RunFolder.open(plan.out))
        check_whole(plan.out, done.config, len(done))
        check_answers(done.folder, network)
        if plan.sign is not None:
            done.folder.sign(plan.sign)
        say(f"complete: {format_count(len(done), 'input')}, and nothing was left to do")
        return done
    if smoothed.fingerprint is None and not RunFolder.holds_run(plan.out):
        warnings.warn(_NOT_RESUMED, RuntimeWarning, stacklevel=3)
    with RunWriter(plan.out, config, network=network, spot_check=spot_check, seed=plan.seed, sign=plan.sign) as writer:
        _check_classes(smoothed, data, step)
        if RunFolder.holds_run(plan.out):
            say(f"resuming: {len(writer.finished)} of {len(data)} were finished")
        rest = np.flatnonzero(~np.isin(data.indices, writer.finished))
        RunFolder.check_room(plan.out, bytes_needed=bytes_per_entry(settings.n, len(smoothed.measures)) * len(rest))
        stream = smoothed.stream(
            Images(data, rest), data.indices[rest].tolist(), settings, seed=writer.seed, progress=progress, step=step
        )
        for position, certificate in zip(rest, stream if len(rest) else (), strict=True):
            writer.add(as_table([Entry(int(data.indices[position]), int(data.labels[position]), certificate)]))
        writer.flush()
        run = CertifiedRun(RunFolder.open(plan.out))
        for measure in run.measures:
            run.folder.write(export_name(measure), partial(write_log, log=run.log_of(measure)), replace=True)
    return CertifiedRun(RunFolder.open(plan.out))


def _step(plan: Plan, smoothed: SmoothedClassifier) -> float:
    """Of the whole run: the one asked for, that of the run that is continued, or what suits the first input."""
    if smoothed.step is not None:
        return smoothed.step
    if RunFolder.holds_run(plan.out):
        return float(check_config(RunFolder(plan.out)).get("provenance", {}).get("step", 0.0))
    return CheckedInputs(Images(plan.data), smoothed.inputs, smoothed.noise)[0].step


def _check_classes(smoothed: SmoothedClassifier, data: LabelledData, step: float) -> None:
    """Refuse labels that are no classes of the model, before anything is sampled."""
    x = CheckedInputs(Images(data), smoothed.inputs, smoothed.noise, step)[0].x
    work = Workload(smoothed.noise, step, smoothed.measures, x, copies=1)
    with smoothed.model.session():
        classes = smoothed.model.validate(noisy_rows(work, x, 1, seed=0).to(smoothed.model.device)).shape[1]
    wrong = np.flatnonzero(data.labels >= classes)
    if len(wrong):
        raise InvalidArgument(
            f"labels must be classes of the model, 0 to {classes - 1}, got {data.labels[wrong[0]]} for input {wrong[0]}"
            f"{f' and {len(wrong) - 1:,} others' if len(wrong) > 1 else ''}; give the data that the model was trained for"
        )


def _spot_check(smoothed: SmoothedClassifier, data: LabelledData, step: float) -> SpotCheck:
    """A noisy copy of each of the first few inputs, always the same ones, and the network's answers."""
    inputs = CheckedInputs(Images(data), smoothed.inputs, smoothed.noise, step)
    count = max(1, min(len(data), _SPOT_ROWS, _SPOT_NUMBERS // inputs[0].x.numel()))
    xs = [inputs[k].x for k in range(count)]
    work = Workload(smoothed.noise, step, smoothed.measures, xs[0], copies=1)
    rows = torch.cat([noisy_rows(work, x, 1, seed=k) for k, x in enumerate(xs)])
    return spot_check_of(smoothed.model, rows)


def _config(plan: Plan, settings: Settings, smoothed: SmoothedClassifier, seed: int, step: float) -> dict[str, Any]:
    provenance = smoothed.provenance(step, seed=seed).to_dict()
    return {
        "kind": "certified",
        "status": RUNNING,
        "created": now(),
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
        "provenance": {key: value for key, value in provenance.items() if key not in _OF_EACH},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{package: version(package) for package in ("numpy", "scipy", "pyarrow")},
        },
        "fingerprints": {"weights": smoothed.fingerprint, **data_fingerprints(plan.data)},
        "platform": f"{platform.system()} {platform.machine()}",
        **(plan.notes or {}),
    }
