"""Directed rounding: a lower bound is never printed, stored or returned above its true value.

Floating-point evaluation of a bound is off by a few units in the last place. :data:`SLACK` is far above that error
(weights that sum to one, each multiplied by a probability with relative error below 1e-14) and far below anything a
sample could resolve, so subtracting it keeps a lower bound a lower bound.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

SLACK = 1e-12
"""Relative to the width of the support: what a computed lower bound is lowered by, and an upper bound raised by."""

_ULPS = 8 * np.finfo(np.float64).eps


def probability_down(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower computed probabilities past their rounding error, and clip them to [0, 1)."""
    return np.clip(p - _ULPS, 0.0, 1.0)


def floor_decimals(value: float, decimals: int) -> str:
    """Print a lower bound with ``decimals`` decimals, rounded towards minus infinity."""
    return _fixed(value, decimals, ROUND_FLOOR)


def ceil_decimals(value: float, decimals: int) -> str:
    """Print an upper bound with ``decimals`` decimals, rounded towards plus infinity."""
    return _fixed(value, decimals, ROUND_CEILING)


def floor_significant(value: float, digits: int) -> float:
    """Round a lower bound down to ``digits`` significant digits.

    The decimal expansion that Python prints is what gets cut, so a number that already has that few digits stays itself.
    """
    exact = Decimal(repr(float(value)))
    if not exact.is_finite() or exact == 0:
        return float(value)
    last = exact.adjusted() - digits + 1
    return float(exact.quantize(Decimal(1).scaleb(last), rounding=ROUND_FLOOR))


def format_number(value: float) -> str:
    """A radius, threshold or alpha as it was given, without rounding: the shortest text that reads back as the number."""
    text = repr(float(value))
    return text.removesuffix(".0")


def format_count(count: int, noun: str) -> str:
    """How many of something there are: ``1 certificate``, ``2,000 certificates``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _fixed(value: float, decimals: int, rounding: str) -> str:
    exact = Decimal(repr(float(value)))
    if not exact.is_finite():
        return str(float(value))
    return str(exact.quantize(Decimal(1).scaleb(-decimals), rounding=rounding) + Decimal(0))
