"""From what people type to values."""

import math

from holdfast.errors import InvalidArgument


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
