"""From what people type to values."""

import math
from collections.abc import Iterable

from holdfast.errors import InvalidArgument
from holdfast.measures import DEFAULT_MEASURES, Measure, measure_named
from holdfast.noise import Noise, as_noise, noise_named


def numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    """``"0,0.25,0.5"`` as numbers."""
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise InvalidArgument(
            f"{option} takes numbers separated by commas, such as 0,0.25,0.5, got {text!r}"
        ) from error
    if any(math.isnan(value) for value in values):
        raise InvalidArgument(f"{option} takes numbers, got nan")
    if not values:
        raise InvalidArgument(f"{option} takes at least one number, got {text!r}")
    return values


def words(text: str) -> tuple[str, ...]:
    """``"label,score"`` as words."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def noise_from(sigma: float | None, noise: str | None) -> Noise:
    """The noise that ``--sigma`` or ``--noise`` names; one of them must."""
    if (sigma is None) == (noise is None):
        raise InvalidArgument(
            "expected the noise: either --sigma 0.25, for Gaussian noise, or --noise with another kind, such as uniform:0.5; "
            + ("got neither" if noise is None else "got both")
        )
    return as_noise(None, sigma) if noise is None else noise_named(noise)


def measures_named(names: Iterable[str]) -> tuple[Measure, ...]:
    """The measures of these names that are not counted anyway."""
    found = (measure_named(name) for name in dict.fromkeys(names) if name != "label")
    return tuple(measure for measure in found if measure not in DEFAULT_MEASURES)


def choice(value: str, option: str, known: tuple[str, ...]) -> str:
    """One of the known words."""
    if value not in known:
        raise InvalidArgument(f"{option} must be one of {', '.join(known)}, got {value!r}")
    return value


def seed_number(text: str | None) -> int | None:
    """A seed as decimal or as 0x... hexadecimal, the way run.json records it."""
    if text is None:
        return None
    try:
        return int(text, 0)
    except ValueError as error:
        raise InvalidArgument(f"--seed takes a whole number, decimal or 0x hexadecimal, got {text!r}") from error
