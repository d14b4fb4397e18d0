"""The empirical distribution itself: the limit of infinitely many samples with these frequencies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.bands.band import Band
from holdfast.validation import Sides


@dataclass(frozen=True)
class Empirical(Band):
    """The empirical survival function, taken as if it were exact. **Not a certificate.**

    For figures that show what a band costs, and for laws about exact distributions.
    """

    guaranteed = False
    name = "empirical"

    def lower(
        self,
        counts: NDArray[np.int64],
        n: int,
        alpha: float,  # noqa: ARG002
        sides: Sides = "lower",  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """``counts / n``: alpha plays no role."""
        return counts / n
