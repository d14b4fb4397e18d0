"""Bounds as whole numbers of ten-thousandths: small to store, and nothing is left to round where they are shown.

A lower bound is stored as ``2 m + 1`` if it lies strictly between m and m + 1 ten-thousandths above the lower end of its
support, rounded down to ten-thousandths, and as ``2 m`` if it is m ten-thousandths exactly. So the stored number, halved, is
the bound rounded down to four decimals, and for every threshold of four decimals "the bound is above it" is answered as the
bound itself would.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument

UNIT = 10_000
Codes = NDArray[np.integer[Any]]
_MOST = int(np.iinfo(np.int32).max)


Support = tuple[float, float]


def support_units(support: Support) -> tuple[int, int]:
    """Both ends of a support in ten-thousandths, rounded outwards: codes count from the lower one."""
    low, high = support
    ends = int(_floor(np.array(low))), -int(_floor(np.array(-high)))
    if ends[1] - ends[0] > _MOST // 2:
        raise InvalidArgument(
            f"a page stores bounds within {_MOST // 2 // UNIT:,} of each other, got a measure with the support {support!r}; "
            f"divide the measure by a constant"
        )
    return ends


def lower_codes(values: NDArray[np.float64], support: Support) -> Codes:
    """Lower bounds as codes, in 16 bits if all codes of the support fit into them.

    ``k / UNIT`` is the double next to the decimal, the one a threshold such as 0.7 is read into, so comparisons agree.
    """
    m, (low, high) = _floor(values), support_units(support)
    return (2 * (m - low) + (m / UNIT < values)).astype(_dtype(2 * (high - low)))


def upper_codes(values: NDArray[np.float64], support: Support) -> Codes:
    """Upper bounds as ten-thousandths above the lower end of the support, rounded up."""
    low, high = support_units(support)
    return (-_floor(-values) - low).astype(_dtype(high - low))


def _dtype(largest: int) -> type[np.integer[Any]]:
    return np.uint16 if largest <= np.iinfo(np.uint16).max else np.int32


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
