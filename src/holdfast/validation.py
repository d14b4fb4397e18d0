"""Checks of the numbers a user passes, made at the public border and before any work starts."""

import math
import numbers
import re
import reprlib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import HoldfastError, InvalidArgument, OutOfRange

Sides = Literal["lower", "both"]

SMALLEST_ALPHA = 1e-100
"""Far below what any number of samples could tell, and far above where floating point ends."""

SMALLEST_SHARE = 1e-120
"""The same for what is left of an alpha that was divided among claims, sides and classes."""

SIGMAS = (1e-12, 1e12)
"""Noise outside this range belongs to no input that float32 holds with its noise, and radii of it print as nonsense."""

MOST_COPIES = 10**9
"""Of one input: hours on a GPU, for bounds that differ from those of a tenth in the fourth digit."""

LONGEST_COUNT = 15
"""Digits of anything that is counted."""

SEED = "0x[0-9a-fA-F]{1,32}|[0-9]{1,39}"
"""A seed as people type it, decimal or as run.json records it."""

_FARTHEST_SUPPORT = 1e3


def check_sigma(sigma: float) -> float:
    """Return sigma if it is a positive finite number."""
    return check_scale("sigma", sigma, meaning="the noise's standard deviation")


def check_scale(name: str, scale: float, *, meaning: str = "a length") -> float:
    """Return a noise's scale if it is a positive number that is neither tiny nor huge."""
    if not _is_real(scale) or not math.isfinite(scale) or scale <= 0:
        raise InvalidArgument(
            f"{name} must be a positive number, {meaning} in the units of the input "
            f"(pixels in [0, 1] for images), got {scale!r}"
        )
    if not SIGMAS[0] <= scale <= SIGMAS[1]:
        raise InvalidArgument(
            f"{name} must be between {SIGMAS[0]:g} and {SIGMAS[1]:g}, got {scale!r}; scale the inputs"
        )
    return float(scale)


def check_alpha(alpha: float, *, at_least: float = SMALLEST_ALPHA) -> float:
    """Return alpha if it is in (0, 0.5], and not too small to compute with."""
    if not _is_real(alpha) or not 0 < alpha <= 0.5:
        raise InvalidArgument(
            f"alpha must be in (0, 0.5], the total failure probability of one certificate, got {alpha!r}"
        )
    if alpha < at_least:
        raise InvalidArgument(f"alpha must be at least {at_least:g}, below which rounding takes over, got {alpha!r}")
    return float(alpha)


def check_share(name: str, value: float) -> float:
    """Return a share or probability that is in (0, 0.5], and not too small to compute with."""
    share = check_number(name, value)
    if not SMALLEST_ALPHA <= share <= 0.5:
        raise InvalidArgument(f"{name} must be in [{SMALLEST_ALPHA:g}, 0.5], got {value!r}")
    return share


def as_whole(typed: Any) -> Any:
    """``"10000"``, ``"10_000"`` or ``"1e4"`` as a number; what is no whole number, or too long for one, as it is.

    A comma is none: it ends thousands here and begins decimals there.
    """
    try:
        number = Decimal(str(typed))
    except InvalidOperation:
        return typed
    short = number.is_finite() and number.adjusted() < LONGEST_COUNT
    return int(number) if short and number == number.to_integral_value() else typed


def as_seed(name: str, typed: str) -> int:
    """A seed from its text."""
    number = int(typed, 16 if typed.startswith("0x") else 10) if re.fullmatch(SEED, typed) else -1
    if not 0 <= number < 2**128:
        raise InvalidArgument(
            f"{name} must be a whole number of at most 128 bits, decimal or 0x and hexadecimal, got {typed[:50]!r}"
        )
    return number


def check_count(name: str, value: int, *, at_least: int = 1, at_most: int | None = None) -> int:
    """Return a whole number that is at least ``at_least``, and at most ``at_most`` if there is such a limit."""
    if not _is_whole(value) or value < at_least or (at_most is not None and value > at_most):
        limit = "" if at_most is None else f" and at most {at_most:,}"
        raise InvalidArgument(f"{name} must be a whole number, at least {at_least}{limit}, got {value!r}")
    return int(value)


def check_copies(name: str, n: int, *, at_least: int = 1) -> int:
    """Return a number of noisy copies, or of samples, that can be drawn within days."""
    return check_count(name, n, at_least=at_least, at_most=MOST_COPIES)


def check_position(name: object, position: int, length: int) -> int:
    """Return a position from the beginning; a negative one counts from the end."""
    if not _is_whole(position) or not -length <= position < length:
        remedy = (
            "" if _is_whole(position) else "; give one whole number, and take several as [data[k] for k in range(2)]"
        )
        raise OutOfRange(
            f"{name} has {length:,} inputs: expected a position from 0 to {length - 1}, got {position!r}{remedy}"
        )
    return int(position) % length


def check_support(support: Sequence[float]) -> tuple[float, float]:
    """Return the support (a, b) if it is a finite interval."""
    try:
        low, high = (float(each) for each in support)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgument(f"support must be a pair (a, b) of finite numbers with a < b, got {support!r}")
    if max(abs(low), abs(high)) > _FARTHEST_SUPPORT * (high - low):
        raise InvalidArgument(
            f"support must not lie more than {_FARTHEST_SUPPORT:g} times its width from zero, or rounding would reach the bound, "
            f"got {support!r}; subtract a constant from the scores first"
        )
    return low, high


def check_sides(sides: str) -> Sides:
    """Return ``sides`` if it is ``"lower"`` or ``"both"``."""
    if sides == "lower":
        return "lower"
    if sides == "both":
        return "both"
    raise InvalidArgument(f'sides must be "lower" or "both", got {sides!r}')


def per_side(alpha: float, sides: Sides) -> float:
    """Each side's share of alpha, where both sides divide it equally (Bonferroni)."""
    return alpha if sides == "lower" else alpha / 2


def check_numbers(
    name: str, given: ArrayLike | None, error: type[HoldfastError] = InvalidArgument
) -> NDArray[np.float64]:
    """Return a number, or an array of numbers, as an array."""
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "iufO":  # NumPy would read truth values, texts and dates as numbers
            raise TypeError(found.dtype)
        return found.astype(np.float64, copy=False)
    except (OverflowError, TypeError, ValueError) as cause:
        raise error(f"{name} must be a number or an array of numbers, got {reprlib.repr(given)}") from cause


def check_radii(radius: ArrayLike, name: str = "radius") -> NDArray[np.float64]:
    """Return radii as an array of finite, nonnegative numbers."""
    radii = check_numbers(name, radius)
    if not ((radii >= 0) & np.isfinite(radii)).all():
        raise InvalidArgument(f"{name} must be finite and nonnegative, in the units of the input, got {radius!r}")
    return radii


def check_number(name: str, value: float, *, at_least: float = -math.inf) -> float:
    """Return one finite number that is at least ``at_least``."""
    if not _is_real(value) or not math.isfinite(value) or value < at_least:
        limit = "" if at_least == -math.inf else f", at least {at_least:g}"
        raise InvalidArgument(f"{name} must be one finite number{limit}, got {value!r}")
    return float(value)


def check_radius(radius: float, name: str = "radius") -> float:
    """Return one finite, nonnegative radius."""
    return float(check_radii(check_number(name, radius), name))


def check_path(name: str, path: str | Path) -> Path:
    """Return a path; a number or an open file is none."""
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidArgument(f"{name} must be a path, as a string or a Path, got {path!r}")
    return Path(path)


def check_threshold(at_least: float, support: tuple[float, float]) -> float:
    """Return a confidence strictly within the support."""
    low, high = support
    if not low < check_number("at_least", at_least) < high:
        raise InvalidArgument(f"at_least must be strictly between {low:g} and {high:g}, got {at_least!r}")
    return float(at_least)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
