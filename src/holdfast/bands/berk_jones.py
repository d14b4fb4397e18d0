"""The Berk-Jones band: exact, and as narrow in the tails as the tails are."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.bands.band import Band
from holdfast.bands.calibration import bounds_at, calibrate, order_statistics
from holdfast.validation import Sides


@dataclass(frozen=True)
class BerkJones(Band):
    """Bounds chosen order statistics by their own Beta quantiles, calibrated so that all hold at once.

    Where DKW is off by the same amount everywhere, this band is off by a multiple of the standard deviation
    ``sqrt(p (1 - p) / n)``: next to ``p = 1``, where a certificate at a large radius lives, it is many times narrower.

    Guarantee:
        With probability at least ``1 - alpha``, for every s at once, ``p(s) >= L(s)``. Exact: for a continuous
        distribution the probability is ``1 - alpha`` to six digits.
    Requires:
        Independent samples. Any distribution: ``P(X >= X_(i)) >= 1 - U_(i)`` in law, atoms and ties included.
    Source:
        R. Berk & D. Jones, Z. Wahrscheinlichkeitstheorie verw. Gebiete 47 (1979); one-sided, with weights that depend on
        the index alone. The calibration is in :mod:`holdfast.bands.calibration`.
    """

    name = "berk-jones"

    def lower(self, counts: NDArray[np.int64], n: int, alpha: float, sides: Sides = "lower") -> NDArray[np.float64]:
        """The bound of the first chosen order statistic that is at or beyond the threshold."""
        return _bounds(n, alpha, sides)[_places(n)[counts] if n <= _SMALL else _place(counts, n)]


_SMALL = 2_000_000


@lru_cache(maxsize=32)
def _bounds(n: int, alpha: float, sides: Sides) -> NDArray[np.float64]:
    return np.append(bounds_at(n, calibrate(n, alpha, sides)), 0.0)


def _place(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    # A threshold that c samples reach is at most the order statistic n - c + 1.
    return np.searchsorted(order_statistics(n), n - counts + 1)


@lru_cache(maxsize=8)
def _places(n: int) -> NDArray[np.uint16]:
    """Of every count; the same for every alpha, of which a service sees many."""
    return _place(np.arange(n + 1), n).astype(np.uint16)
