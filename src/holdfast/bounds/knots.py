"""A curve through finitely many certified radii."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.radius_bound import RadiusBound
from holdfast.noise import Noise
from holdfast.scores.rounding import SLACK

_CURVATURE = 0.2419707245191434
"""The largest slope of the normal density, ``exp(-1/2) / sqrt(2 pi)``, rounded up."""


@dataclass(frozen=True, eq=False)
class Knots(RadiusBound):
    """Lower bounds ``values`` on ``T(r) = a + Integral g_r(p(s)) ds`` at ascending distances ``r``, and between them.

    Distances are in units of the noise's scale.

    Guarantee:
        If the bounds hold at the knots, ``value`` is a lower bound at every radius. T decreases, so before the first knot
        the first bound holds. Beyond the last knot Theorem 1 takes over, from a point on the way that the last bound
        covers; that holds in any norm.
        Between two knots of Gaussian noise: ``T(r) - a`` is ``b - a`` times ``P(Z + N > r)`` for a standard normal N
        independent of ``Z = Phi^-1(p(S))``, S uniform on [a, b]. So its second derivative is at most ``(b - a) max phi'``:
        it lies above their chord less ``max phi' (r - r_i)(r_{i+1} - r) (b - a) / 2``, and above the right knot's bound.
    Requires:
        Gaussian noise, unless there is a single knot.
    """

    noise: Noise
    support: tuple[float, float]
    r: NDArray[np.float64]
    values: NDArray[np.float64]

    def value(self, radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """The bound at each radius; never below a."""
        a, b = self.support
        r = radius / self.noise.scale
        values = np.maximum.accumulate(self.values[::-1])[::-1]
        at = np.clip(r, self.r[0], self.r[-1])
        right = np.clip(np.searchsorted(self.r, at), min(1, len(self.r) - 1), len(self.r) - 1)
        left = np.maximum(right - 1, 0)
        sag = 0.5 * _CURVATURE * (b - a) * (at - self.r[left]) * (self.r[right] - at)
        inside = np.maximum(np.interp(at, self.r, values) - np.where(at < self.r[right], sag, 0.0), values[right])
        share = np.clip((values[-1] - a) / (b - a), 0.0, 1.0)
        further = self.noise.scale * np.maximum(r - self.r[-1], 0.0)
        beyond = a + (b - a) * self.noise.least_probability(share, further)
        return np.maximum(a, np.where(r <= self.r[-1], inside, beyond) - SLACK * (b - a))
