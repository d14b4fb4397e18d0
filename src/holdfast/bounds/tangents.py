"""The two uses of tangents: a whole curve, and one radius."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.knots import Knots
from holdfast.bounds.method import Method, View
from holdfast.bounds.radius_bound import RadiusBound
from holdfast.bounds.tangent import rounds, tangent_bound
from holdfast.errors import InvalidArgument
from holdfast.noise import Gaussian
from holdfast.scores import Scores
from holdfast.validation import Sides, check_number, check_radius, per_side

_KNOTS = np.arange(36) / 8.0
_LEAST_PILOT = 20


@dataclass(frozen=True)
class Tangents(Method):
    """A whole curve from tangents at 36 distances, an eighth of a sigma apart, each with a 36th of alpha.

    Guarantee:
        With probability at least ``1 - alpha``, for every radius at once.
    Requires:
        Independent samples in arrival order (:class:`~holdfast.ScoreSamples`): the first ``pilot`` share only serves to
        guess, every later block is played with a guess from all before it. Gaussian noise: between the knots, the bound
        rests on its curvature.
    Source:
        Not in the paper; see docs/mathematics.md. Between the knots: :mod:`holdfast.bounds.knots`.
    """

    pilot: float = 0.02
    needs_order = True
    requires = (Gaussian,)

    def __post_init__(self) -> None:
        _check_pilot(self.pilot)

    @property
    def name(self) -> str:
        """``tangents``."""
        return "tangents" + _aside(self.pilot)

    @property
    def guaranteed(self) -> bool:
        """It is a certificate."""
        return True

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """Bounds at the knots, and what follows between them."""
        return _through(_KNOTS, scores, view, self.pilot, per_side(alpha, sides) / len(_KNOTS))


@dataclass(frozen=True)
class Tangent(Method):
    """A certificate aimed at one radius: the tightest answer to "is the confidence at least c within this radius?".

    Guarantee:
        With probability at least ``1 - alpha``, at ``radius``; hence at every smaller one (the bound is the same there) and,
        less tightly, at every larger one (Theorem 1 takes over). For every noise.
    Requires:
        Independent samples in arrival order; a radius chosen without looking at them. The best of several radii tried on
        one sample spends alpha once for each.
    Source:
        Not in the paper; see docs/mathematics.md.
    """

    radius: float
    pilot: float = 0.02
    needs_order = True

    def __post_init__(self) -> None:
        check_radius(self.radius)
        _check_pilot(self.pilot)

    @property
    def name(self) -> str:
        """``tangent-`` and the radius."""
        return f"tangent-{float(self.radius)!r}" + _aside(self.pilot)

    @property
    def guaranteed(self) -> bool:
        """It is a certificate."""
        return True

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """One bound at one knot."""
        knot = np.array([self.radius / scores.noise.scale])
        return _through(knot, scores, view, self.pilot, per_side(alpha, sides))


def _aside(pilot: float) -> str:
    return "" if pilot == 0.02 else f"@{float(pilot)!r}"


def _check_pilot(pilot: float) -> None:
    if not 0 < check_number("pilot", pilot) < 1:
        raise InvalidArgument(f"pilot must be a share of the samples, in (0, 1), got {pilot!r}")


def _through(knots: NDArray[np.float64], scores: Scores, view: View, pilot: float, alpha: float) -> Knots:
    """Bounds at the knots, each wrong with probability at most ``alpha``; a single sample cannot both aim and measure."""
    noise, support = scores.noise, scores.support
    if scores.n < 2:
        return Knots(noise, support, knots, np.full(len(knots), support[0]))
    played = rounds([view(block) for block in scores.blocks(_sizes(pilot, scores.n))])
    values = [tangent_bound(played, support, noise, noise.scale * float(r), alpha) for r in knots]
    return Knots(noise, support, knots, np.array(values))


def _sizes(pilot: float, n: int) -> list[int]:
    """The pilot, then blocks as long as everything before them."""
    sizes = [min(max(int(pilot * n), min(_LEAST_PILOT, n // 2)), n - 1)]
    while sum(sizes) < n:
        rest = n - sum(sizes)
        sizes.append(rest if rest <= 2 * sum(sizes) else sum(sizes))
    return sizes
