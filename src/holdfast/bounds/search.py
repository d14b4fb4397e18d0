"""The certified radius for a threshold: one root of a monotone function, approached from the safe side."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PRECISION = 1e-9
"""How far below the exact root a radius may be, in units of the noise's scale."""

_FAR, _FARTHEST = 64.0, 2.0**40
_DOWN = 1 - 4 * float(np.finfo(np.float64).eps)


def largest_radius(
    value: Callable[[NDArray[np.float64]], NDArray[np.float64]], threshold: float, *, unit: float
) -> float:
    """The largest radius with ``value(radius) >= threshold`` for a decreasing ``value``, to within 1e-9 ``unit`` below.

    A number a few units in the last place above a positive one returned was evaluated and passed, so rounding can only
    make it smaller. 0.0 if not even 0 passes; infinity if 2^40 units do. Beyond 64 units the precision is relative.

    Source:
        Kumar et al. 2020, section 3.2, "Computing the certified radius" (binary search).
    """

    def passes(r: float) -> bool:
        return bool(value(np.array([unit * r]))[0] >= threshold)

    if not passes(0.0):
        return 0.0
    if passes(_FAR) and passes(_FARTHEST):
        return math.inf
    good, bad = 0.0, 1.0
    while passes(bad):
        good, bad = bad, 2 * bad
    while bad - good > PRECISION * max(1.0, bad / _FAR):
        middle = (good + bad) / 2
        if passes(middle):
            good = middle
        else:
            bad = middle
    return unit * good * _DOWN
