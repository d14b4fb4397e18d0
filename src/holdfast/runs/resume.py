"""Resuming an interrupted run: checks that the question is the same."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.errors import RunError
from holdfast.measures import DEFAULT_MEASURES
from holdfast.runs.folder import RunFolder, recorded_measures, recorded_noise
from holdfast.zoo.datasets.labelled import LabelledData

COMPLETE, RUNNING, INTERRUPTED = "complete", "running", "interrupted"

# What must agree for the rest of a run to be what it would have been; where it was computed need not.
_VALUES = ("data", "inputs", "n", "n0", "alpha", "claims", "sides", "method", "compile")
_CIRCUMSTANCES = {
    "model": "provenance",
    "noise": "provenance",
    "precision": "provenance",
    "version": "provenance",
    "torch": "versions",
}
_TITLES = {"noise": "the noise generator", "version": "Holdfast"}
_FINGERPRINTS = ("weights", "images", "labels", "indices")


def data_fingerprints(data: LabelledData) -> dict[str, str]:
    """What the inputs are, wherever they came from."""
    return {
        "images": data.digest(),
        "labels": hashlib.sha256(np.ascontiguousarray(data.labels).data).hexdigest(),
        "indices": hashlib.sha256(np.ascontiguousarray(data.indices).data).hexdigest(),
    }


def check_same(folder: RunFolder, asked: Mapping[str, Any], seed: int | None) -> None:
    """Refuse a run that is finished or of another question, and name the difference."""
    config = folder.config()
    different = _differences(config, asked, seed)
    left = f"{folder.path} exists already and is left as it is"
    if config.get("status") not in (RUNNING, INTERRUPTED):
        what = f"of another question: {different[0]}" if different else "of this very question"
        raise RunError(f"{left}: it holds a complete run {what}; choose another --out")
    if different:
        raise RunError(
            f"{left}: it holds an unfinished run of another question: {'; '.join(different)}. "
            f"Repeat the command it was begun with to continue it, or choose another --out"
        )


def _differences(config: Mapping[str, Any], asked: Mapping[str, Any], seed: int | None) -> list[str]:
    """Each difference in words, the plainest first."""
    if config.get("kind") != asked["kind"]:
        return [f"it is {config.get('kind')!s}, not {asked['kind']}"]
    if "compacted" in config:
        return ["it is a compact copy, which is not continued"]
    if "fingerprints" not in config:
        return ["it was begun by a Holdfast that did not yet record what continuing needs"]
    found = [
        f"{name} is {_shown(config.get(name))} there and {_shown(asked[name])} here"
        for name in _VALUES
        if config.get(name) != asked[name]
    ]
    found += _other_noise_or_measures(config, asked)
    for name, where in _CIRCUMSTANCES.items():
        there, here = config.get(where, {}).get(name), asked[where][name]
        if there != here:
            found.append(f"{_TITLES.get(name, name)} is {_shown(there)} there and {_shown(here)} here")
    if asked["fingerprints"]["weights"] is None:
        found.append("this network cannot be compared with the one there: it holds hooks or objects without a name")
    found += [
        f"the {name} are others"
        for name in _FINGERPRINTS
        if config["fingerprints"].get(name) != asked["fingerprints"][name]
    ]
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
    if "measures" not in config and measures[1] == tuple(measure.info for measure in DEFAULT_MEASURES):
        return found  # what is added was checked more closely, and is read like the rest
    if measures[0] != measures[1]:
        there, here = (_shown([info.name for info in each]) for each in measures)
        different = f"the measures are {there} there and {here} here"
        if there == here:
            pair = next(pair for pair in zip(*measures, strict=True) if pair[0] != pair[1])
            different = f"the measure {pair[0].name} is {pair[0].to_dict()} there and {pair[1].to_dict()} here"
        found.append(different)
    return found


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
