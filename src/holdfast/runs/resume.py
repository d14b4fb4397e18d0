"""Resuming an interrupted run: checks that the question is the same."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import RunError
from holdfast.noise import describe_step
from holdfast.runs.config_checks import check_config
from holdfast.runs.folder import INTERRUPTED, RUNNING, RunFolder, recorded_measures, recorded_noise
from holdfast.runs.manifest import SPOT_CHECK
from holdfast.zoo.datasets.labelled import LabelledData

# What must agree for the rest of a run to be what it would have been, by where run.json has it; where it was computed need not.
_SAME = {
    **{name: (name,) for name in ("data", "inputs", "n", "n0", "alpha", "claims", "sides", "method", "compile")},
    "model": ("provenance", "model"),
    "the noise generator": ("provenance", "noise"),
    "precision": ("provenance", "precision"),
    "Holdfast": ("provenance", "version"),
    "torch": ("versions", "torch"),
}

_INCOMPARABLE = (
    "this model cannot be compared with the one there: it is a plain function or an endpoint without a version, "
    "or holds hooks or objects without a name"
)


def data_fingerprints(data: LabelledData) -> dict[str, str]:
    """What the inputs are, wherever they came from."""
    return {
        "images": data.digest(),
        "labels": hashlib.sha256(np.ascontiguousarray(data.labels).data).hexdigest(),
        "indices": hashlib.sha256(np.ascontiguousarray(data.indices).data).hexdigest(),
    }


def is_complete(folder: RunFolder, asked: Mapping[str, Any], seed: int | None) -> bool:
    """Whether there is a finished run of this very question."""
    if not RunFolder.holds_run(folder.path):
        return False
    config = check_config(folder)
    return config.get("status") not in (RUNNING, INTERRUPTED) and not _differences(config, asked, seed)


def check_same(folder: RunFolder, asked: Mapping[str, Any], seed: int | None) -> None:
    """Refuse a run that is finished or of another question, and name the difference."""
    config = folder.config()
    different = _differences(config, asked, seed)
    left = f"{folder.path} exists already and is left as it is"
    if config.get("status") not in (RUNNING, INTERRUPTED):
        what = f"another question: {different[0]}" if different else "this very question"
        if different == [_INCOMPARABLE]:
            what = f"the same question, but {_INCOMPARABLE}"
        raise RunError(
            f"{left}: it holds a complete run of {what}; open that one (Run.open, holdfast report), or choose another place"
        )
    if different == [_INCOMPARABLE]:
        raise RunError(
            f"{left}: it holds an unfinished run that cannot be continued: {_INCOMPARABLE}; choose another place"
        )
    if different:
        raise RunError(
            f"{left}: it holds an unfinished run of another question: {'; '.join(different)}. "
            f"Repeat the command or the call it was begun with to continue it, or choose another place"
        )


def check_answers(folder: RunFolder, network: Callable[[SpotCheck], str]) -> None:
    """Refuse a network that does not answer as the one the run was begun with; ``network`` says how it differs, or nothing.

    The fingerprint knows a network's classes by their names: this sees that their code was edited.
    """
    known = SpotCheck.read(folder.path / SPOT_CHECK)
    fault = "" if known is None else network(known)
    if fault:
        raise RunError(
            f"{folder.path} exists already and is left as it is: it was begun with a network of the same weights that answers "
            f"otherwise (on the rows of its spot check, the {fault}): the code of its classes was changed. Change it back to "
            f"continue, or choose another place"
        )


def _differences(config: Mapping[str, Any], asked: Mapping[str, Any], seed: int | None) -> list[str]:
    """Each difference in words, the plainest first."""
    if config.get("kind") != asked["kind"]:
        return [f"it is {config.get('kind')!s}, not {asked['kind']}"]
    if "compacted" in config:
        return ["it is a compact copy, which is not continued"]
    if "fingerprints" not in config:
        return ["it was begun by a Holdfast that did not yet record what continuing needs"]
    found = []
    for name, where in _SAME.items():
        there, here = _at(config, where), _at(asked, where)
        if there != here:
            found.append(f"{name} is {_shown(there)} there and {_shown(here)} here")
    steps = [_at(each, ("provenance", "step")) or 0.0 for each in (config, asked)]
    if steps[0] != steps[1]:
        found.append(f"the grid has steps of {_step_shown(steps[0])} there and {_step_shown(steps[1])} here")
    found += _other_noise_or_measures(config, asked)
    if asked["fingerprints"]["weights"] is None:
        found.append(_INCOMPARABLE)
    for name, here in asked["fingerprints"].items():
        if config["fingerprints"].get(name) != here:
            found.append(f"the {name} are others")
    if seed is not None and int(config["provenance"]["seed"], 16) != seed:
        found.append("the seed is another")  # which one stays between the run and whoever began it
    return found


def _other_noise_or_measures(config: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Other noise and other measures; what 0.1.0 recorded is understood."""
    found = []
    noises = recorded_noise(config), recorded_noise(asked)
    if noises[0] != noises[1]:
        there, here = ("unknown" if each is None else each.title for each in noises)
        found.append(f"the noise is {there} there and {here} here")
    measures = recorded_measures(config), recorded_measures(asked)
    names = [[info.name for info in each] for each in measures]
    if names[0] != names[1]:
        found.append(f"the measures are {_shown(names[0])} there and {_shown(names[1])} here")
    elif "measures" in config:  # what is added to a run of 0.1.0 was checked more closely, and is read like the rest
        found += [
            f"the measure {there.name} is {there.to_dict()} there and {here.to_dict()} here"
            for there, here in zip(*measures, strict=True)
            if there != here
        ]
    return found


def _at(config: Mapping[str, Any], where: Sequence[str]) -> Any:
    *sections, name = where
    for section in sections:
        config = config.get(section, {})
    return config.get(name)


def _step_shown(step: float) -> str:
    return describe_step(step) if step else "0 (float32 noise)"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
