"""What ``run.json`` records of the noise and the measures, and how Holdfast 0.1.0 recorded them."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.certificates.evidence import stored_measures
from holdfast.errors import HoldfastError, RunError
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, noise_fields, stored_noise


def record(noise: Noise, measures: Sequence[MeasureInfo]) -> dict[str, Any]:
    """The entries of ``run.json``."""
    return {**noise_fields(noise), "measures": [info.to_dict() for info in measures]}


def recorded_noise(config: Mapping[str, Any]) -> Noise | None:
    """The noise of a run; None where a log does not say. What 0.1.0 wrote has a sigma only."""
    known = {name: config[name] for name in ("noise", "sigma") if config.get(name) is not None}
    try:
        return stored_noise(known) if known else None
    except HoldfastError as error:
        raise RunError(f"run.json does not describe a noise: {error}; restore it from a copy") from error


def recorded_measures(config: Mapping[str, Any]) -> tuple[MeasureInfo, ...]:
    """The measures of a run, in the order in which they were counted; the default ones where it does not say."""
    try:
        return stored_measures(config.get("measures"))
    except (HoldfastError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise RunError(f"run.json does not describe measures: {error}; restore it from a copy") from error
