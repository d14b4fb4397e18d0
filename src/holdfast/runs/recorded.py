"""What ``run.json`` records of the noise and the measures, and how Holdfast 0.1.0 recorded them."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.certificates.evidence import stored_measures
from holdfast.errors import HoldfastError, RunError
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, as_noise


def record(noise: Noise, measures: Sequence[MeasureInfo]) -> dict[str, Any]:
    """The entries of ``run.json``; a sigma that says all of the noise stands there too, where 0.1.0 looks for it."""
    sigma = sigma_alone(noise)
    found: dict[str, Any] = {"noise": noise.to_dict(), "measures": [info.to_dict() for info in measures]}
    return found if sigma is None else {"sigma": sigma, **found}


def sigma_alone(noise: Noise) -> float | None:
    """The sigma of a noise for which ``sigma=...`` is the short form; None for any other."""
    sigma = noise.to_dict().get("sigma")
    return sigma if sigma is not None and as_noise(None, sigma) == noise else None


def recorded_noise(config: Mapping[str, Any]) -> Noise | None:
    """The noise of a run; None where a log does not say. Before there were other kinds, a sigma was all of it."""
    described, sigma = config.get("noise"), config.get("sigma")
    try:
        if described is not None:
            return Noise.from_dict(described)
        return None if sigma is None else as_noise(None, sigma)
    except (HoldfastError, AttributeError, TypeError, ValueError) as error:
        raise RunError(f"run.json does not describe a noise: {error}; restore it from a copy") from error


def recorded_measures(config: Mapping[str, Any]) -> tuple[MeasureInfo, ...]:
    """The measures of a run, in the order in which they were counted; the default ones where it does not say."""
    try:
        return stored_measures(config.get("measures"))
    except (HoldfastError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise RunError(f"run.json does not describe measures: {error}; restore it from a copy") from error
