"""The two uses of tangents: a whole curve, and one radius."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.best_of import BestOf
from holdfast.bounds.curve import RadiusBound
from holdfast.bounds.method import Method
from holdfast.bounds.tangent import aimed_bound, guesses_and_blocks, tangent_bounds
from holdfast.means import View
from holdfast.means.star import block_sizes
from holdfast.noise import Gaussian, Noise
from holdfast.scores import Scores
from holdfast.scores.rounding import SLACK
from holdfast.validation import Sides, check_radius, per_side

_KNOTS = np.arange(36) / 8.0
_CURVATURE = 0.2419707245191434
"""The largest slope of the normal density, ``exp(-1/2) / sqrt(2 pi)``, rounded up."""


@dataclass(frozen=True)
class Tangents(Method):
    """A whole curve from tangents at 36 distances, an eighth of a sigma apart, each with a 36th of alpha.

    Guarantee:
        With probability at least ``1 - alpha``, for every radius at once.
    Requires:
        Independent samples in arrival order (:class:`~holdfast.ScoreSamples`) or in a random one (certificates, runs): the
        first few only serve to guess, every later block is played with a guess from all before it. Gaussian noise: between
        the knots, the bound rests on its curvature.
    Source:
        Not in the paper; see docs/mathematics.md. Between the knots: :func:`through_knots`.
    """

    name = "tangents"
    guaranteed = True
    needs_order = True
    requires = (Gaussian,)

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """Bounds at the knots, and what follows between them."""
        noise, support, each = scores.noise, scores.support, per_side(alpha, sides) / len(_KNOTS)
        values = np.full(len(_KNOTS), support[0])
        if scores.n >= 2:  # a single sample cannot both aim and measure
            rounds = guesses_and_blocks([view(block) for block in scores.blocks(_doubling(scores.n))])
            values = tangent_bounds(rounds, support, noise, noise.scale * _KNOTS, each)
        return partial(through_knots, noise, support, _KNOTS, values)


@dataclass(frozen=True)
class Tangent(Method):
    """A certificate aimed at one radius: the tightest answer to "is the confidence at least c within this radius?".

    Guarantee:
        With probability at least ``1 - alpha``, at ``radius``; hence at every smaller one (the bound is the same there) and,
        less tightly, at every larger one (Theorem 1 takes over). For every noise.
    Requires:
        Independent samples in arrival order, or in a random one; a radius chosen without looking at them. The best of
        several radii tried on one sample spends alpha once for each.
    Source:
        Not in the paper; see docs/mathematics.md.
    """

    radius: float
    guaranteed = True
    needs_order = True

    def __post_init__(self) -> None:
        check_radius(self.radius)

    @property
    def name(self) -> str:
        """``tangent-`` and the radius."""
        return f"tangent-{float(self.radius)!r}".replace(
            "+", ""
        )  # 1e+16 is 1e16; a plus stands between the names of BestOf

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """One bound at one knot."""
        noise, support, value = scores.noise, scores.support, scores.support[0]
        if scores.n >= 2:
            blocks = [view(block) for block in scores.blocks(block_sizes(scores.n))]
            value = aimed_bound(blocks, support, noise, self.radius, per_side(alpha, sides))
        return partial(through_knots, noise, support, np.array([self.radius / noise.scale]), np.array([value]))


def _doubling(n: int) -> list[int]:
    """The sizes of a pilot, and of blocks as long as everything before them; the last, up to twice as long, takes what is left."""
    ends = block_sizes(n)[:1]
    while 3 * ends[-1] <= n:
        ends.append(2 * ends[-1])
    return [int(size) for size in np.diff([0, *ends, n])]


def aimed_at(radius: float | None, method: Method) -> Method:
    """The best of a method and a tangent at a radius named beforehand, for equal shares of alpha; the method alone for None."""
    return method if radius is None else BestOf((method, Tangent(check_radius(radius, "aim"))))


def through_knots(
    noise: Noise,
    support: tuple[float, float],
    knots: NDArray[np.float64],
    values: NDArray[np.float64],
    radius: NDArray[np.float64],
) -> NDArray[np.float64]:
    """A curve through lower bounds ``values`` on ``T(r) = a + Integral g_r(p(s)) ds`` at ascending distances ``knots``.

    Distances are in units of the noise's scale.

    Guarantee:
        If the bounds hold at the knots, the curve is a lower bound at every radius. T decreases, so before the first knot
        the first bound holds. Beyond the last knot Theorem 1 takes over, from a point on the way that the last bound
        covers; that holds in any norm.
        Between two knots of Gaussian noise: ``T(r) - a`` is ``b - a`` times ``P(Z + N > r)`` for a standard normal N
        independent of ``Z = Phi^-1(p(S))``, S uniform on [a, b]. So its second derivative is at most ``(b - a) max phi'``:
        it lies above their chord less ``max phi' (r - r_i)(r_{i+1} - r) (b - a) / 2``, and above the right knot's bound.
    Requires:
        Gaussian noise, unless there is a single knot.
    """
    a, b = support
    r = radius / noise.scale
    values = np.maximum.accumulate(values[::-1])[::-1]
    at = np.clip(r, knots[0], knots[-1])
    right = np.clip(np.searchsorted(knots, at), min(1, len(knots) - 1), len(knots) - 1)
    left = np.maximum(right - 1, 0)
    sag = 0.5 * _CURVATURE * (b - a) * (at - knots[left]) * (knots[right] - at)
    inside = np.maximum(np.interp(at, knots, values) - np.where(at < knots[right], sag, 0.0), values[right])
    share = np.clip((values[-1] - a) / (b - a), 0.0, 1.0)
    further = noise.scale * np.maximum(r - knots[-1], 0.0)
    beyond = a + (b - a) * noise.least_probability(share, further)
    return np.maximum(a, np.where(r <= knots[-1], inside, beyond) - SLACK * (b - a))
