"""The certified radius for a threshold: one root of a monotone function, approached from the safe side."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PRECISION = 1e-9
"""How far below the exact root a radius may be, in units of sigma."""

_FARTHEST = 64.0


def largest_radius(value: Callable[[NDArray[np.float64]], NDArray[np.float64]], threshold: float) -> float:
    """The largest r with ``value(r) >= threshold`` for a decreasing ``value``, to within 1e-9 below.

    A positive number returned was itself evaluated and passed, so rounding can only make it smaller. 0.0 if not even
    r = 0 passes; infinity if r = 64 does, where every probability below ``1 - 1e-15`` has been moved to nothing.

    Source:
        Kumar et al. 2020, section 3.2, "Computing the certified radius" (binary search).
    """

    def passes(r: float) -> bool:
        return bool(value(np.array([r]))[0] >= threshold)

    if not passes(0.0):
        return 0.0
    if passes(_FARTHEST):
        return math.inf
    good, bad = 0.0, 1.0
    while passes(bad):
        good, bad = bad, 2 * bad
    while bad - good > PRECISION:
        middle = (good + bad) / 2
        if passes(middle):
            good = middle
        else:
            bad = middle
    return good
