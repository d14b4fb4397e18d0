"""Bounds as whole numbers of ten-thousandths: small to store, and nothing is left to round where they are shown.

A lower bound is stored as ``2 m + 1`` if it lies strictly between m and m + 1 ten-thousandths above the lower end of its
support, and as ``2 m`` if it is m ten-thousandths exactly. So the stored number, halved, is the bound rounded down to
four decimals, and for every threshold of four decimals "the bound is above it" is answered as the bound itself would.
"""

import math

import numpy as np
from numpy.typing import NDArray

UNIT = 10_000
_MOST = int(np.iinfo(np.int32).max)


def lower_codes(values: NDArray[np.float64], low: float) -> NDArray[np.uint16]:
    """Lower bounds in a support from the whole number ``low``, as codes.

    ``k / UNIT`` is the double next to the decimal, the one a threshold such as 0.7 is read into, so comparisons agree.
    """
    m = _floor(values)
    return (2 * (m - round(low) * UNIT) + (m / UNIT < values)).astype(np.uint16)


def upper_codes(values: NDArray[np.float64], low: float) -> NDArray[np.uint16]:
    """Upper bounds as ten-thousandths above ``low``, rounded up."""
    return (-_floor(-values) - round(low) * UNIT).astype(np.uint16)


def floor_units(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Nonnegative lower bounds, such as radii, as ten-thousandths rounded down, and to the largest that can be stored."""
    return _floor(np.minimum(values, _MOST / UNIT)).astype(np.int32)


def threshold_units(threshold: float) -> int:
    """A threshold in ten-thousandths; one with more decimals is rounded up, to the stricter question."""
    m = math.ceil(threshold * UNIT)
    return m - 1 if (m - 1) / UNIT >= threshold else m


def _floor(values: NDArray[np.float64]) -> NDArray[np.int64]:
    m = np.floor(values * UNIT).astype(np.int64)
    m -= m / UNIT > values  # the product may have been rounded up to the next whole number,
    m += (m + 1) / UNIT <= values  # or down below one
    return m
