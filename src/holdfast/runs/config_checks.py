"""Whether a run's configuration is one that Holdfast could have written."""

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import Any

from holdfast.bounds.named import method_named
from holdfast.certificates.evidence import Provenance, check_claims, claimable
from holdfast.certificates.settings import Settings
from holdfast.errors import RunError, reading
from holdfast.measures import DEFAULT_MEASURES
from holdfast.noise import check_seed
from holdfast.runs.folder import COMPLETE, FORMAT, INTERRUPTED, RUNNING, RunFolder, recorded_measures, recorded_noise
from holdfast.runs.manifest import CONFIG
from holdfast.runs.tsv import LogOrigin
from holdfast.validation import check_count

_TYPES: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("data", "split", "model", "source", "measure", "method", "sides", "platform", "chosen_from"), str),
    **dict.fromkeys(("provenance", "versions", "fingerprints", "weights", "compacted"), dict),
    **dict.fromkeys(("claims", "columns", "methods", "resumed"), list),
    "skip": int,
    "max": int | None,
}
"""What is read from a run's configuration without a check of its own."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def config_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """What no run of Holdfast's says of itself, one sentence each."""
    status = config.get("status", COMPLETE)
    if config.get("format") != FORMAT:
        yield f"run.json says format {config.get('format')!r}, this Holdfast reads format {FORMAT}"
    if status == RUNNING:
        yield "the run is not finished: it is being certified, or was killed; repeat the command it was begun with"
    elif status not in (COMPLETE, INTERRUPTED):
        yield f"run.json says status {status!r}, expected complete, interrupted or running"
    yield from _wrong(config, (*_READ, _created, _measures, _prints))


def _wrong(config: Mapping[str, Any], checks: Sequence[Callable[[Mapping[str, Any]], Iterator[str]]]) -> Iterator[str]:
    for check in checks:
        try:
            with reading(CONFIG, RunError, "has what no run has", remedy="docs/runs.md says what it holds"):
                yield from check(config)
        except RunError as error:
            yield str(error)


def check_config(folder: RunFolder) -> dict[str, Any]:
    """The configuration of a run, finished or not; refused if something is wrong with it."""
    config = folder.config()
    for problem in _wrong(config, _READ):
        raise RunError(
            f"{folder.path}: {problem}; restore it from a copy. 'holdfast verify' lists all that is wrong with it"
        )
    return config


def _types(config: Mapping[str, Any]) -> Iterator[str]:
    for name, kind in _TYPES.items():
        if name in config and (not isinstance(config[name], kind) or isinstance(config[name], bool)):
            yield f"run.json has {reprlib.repr(config[name])} as {name}, which no run has"


def _certified(config: Mapping[str, Any]) -> bool:
    return config.get("kind") == "certified"


def _created(config: Mapping[str, Any]) -> Iterator[str]:
    times = [config[name] for name in ("created",) if name in config] + list(config.get("resumed", []))
    for time in times:
        if datetime.fromisoformat(time).tzinfo is None:
            yield f"run.json has the time {time!r}, expected one with its zone"


def _names(config: Mapping[str, Any]) -> Iterator[str]:
    names = config.get("label_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        yield f"run.json must name the classes in a list of words, got {names!r}"


def _noise(config: Mapping[str, Any]) -> Iterator[str]:
    if recorded_noise(config) is None and _certified(config):
        yield "run.json says nothing of the noise"


def _measures(config: Mapping[str, Any]) -> Iterator[str]:
    known = {measure.name: measure.info for measure in DEFAULT_MEASURES}
    for info in recorded_measures(config) if "measures" in config else ():
        if info != known.get(info.name, info):
            yield f"run.json describes the {info.name} as {info.to_dict()}, which it is not"


def _settings(config: Mapping[str, Any]) -> Iterator[str]:
    if not _certified(config):
        LogOrigin.recorded(config)
        return
    claims, noise, method = tuple(config["claims"]), recorded_noise(config), method_named(config["method"])
    # Whether n is enough for these claims is not asked: with an edited measure, the answer could take forever.
    Settings(config["n"], config["n0"], config["alpha"], claims, config["sides"], method)
    if noise is not None:
        method.check_noise(noise)
    if check_claims(claims, claimable(recorded_measures(config))) != claims:
        yield f"run.json has the claims in another order than Holdfast writes them: {', '.join(claims)}"
    check_count("inputs", config["inputs"])
    if not isinstance(config.get("compile"), bool | None):
        yield f"run.json must have true, false or null for compile, got {config['compile']!r}"


def _provenance(config: Mapping[str, Any]) -> Iterator[str]:
    if not _certified(config):
        return
    made = Provenance.from_dict({**config["provenance"], "index": 0, "seconds": 0.0})
    check_seed(made.seed)
    for name in ("noise", "model", "device", "precision", "version", "units"):
        if not isinstance(getattr(made, name), str):
            yield f"run.json must have a word for the {name} of its provenance, got {getattr(made, name)!r}"


def _prints(config: Mapping[str, Any]) -> Iterator[str]:
    for name, found in config.get("fingerprints", {}).items():
        unknown = name == "weights" and found is None
        if not unknown and (not isinstance(found, str) or not _SHA256.fullmatch(found)):
            yield f"run.json must have a SHA-256 as the fingerprint of the {name}, got {found!r}"


_READ = (_types, _names, _noise, _settings, _provenance)
"""What must be right for a run to be read at all."""
