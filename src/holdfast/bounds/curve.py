"""A certified curve: bounds on the expected score as a function of the perturbation's radius."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds.search import largest_radius
from holdfast.errors import InvalidArgument, NotClaimed
from holdfast.noise import Noise, sigma_of
from holdfast.validation import check_numbers, check_radii, check_radius

Many = Sequence[float] | NDArray[np.float64]
RadiusBound = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""One side of a curve: at each radius, a lower bound on the expected score at every point within it.

No closure: curves are pickled with their certificates.
"""


@dataclass(frozen=True, eq=False)
class Curve:
    """Bounds on ``fbar(x') = E f(x' + delta)`` over all x' within a radius of x.

    Guarantee:
        With probability at least ``1 - alpha``, for **every** radius R and every x' with ``|x' - x| <= R`` at once (in the
        norm of the noise), ``lower(R) <= fbar(x')``, and ``fbar(x') <= upper(R)`` where the upper side was asked for. If ``guaranteed`` is
        False the curve is a plug-in estimate and promises nothing.
    """

    noise: Noise
    alpha: float
    method: str
    guaranteed: bool
    support: tuple[float, float]
    below: RadiusBound
    above: RadiusBound | None

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it is Gaussian."""
        return sigma_of(self.noise)

    @property
    def sides(self) -> str:
        """``"lower"`` or ``"both"``."""
        return "lower" if self.above is None else "both"

    @overload
    def lower(self, radius: float) -> float: ...
    @overload
    def lower(self, radius: Many) -> NDArray[np.float64]: ...
    def lower(self, radius: ArrayLike) -> float | NDArray[np.float64]:
        """The certified lower bound at a radius, or at each of an array of radii; rounded down."""
        return _like(radius, self.below(check_radii(radius)))

    @overload
    def upper(self, radius: float) -> float: ...
    @overload
    def upper(self, radius: Many) -> NDArray[np.float64]: ...
    def upper(self, radius: ArrayLike) -> float | NDArray[np.float64]:
        """The certified upper bound at a radius, or at each of an array of radii; rounded up."""
        a, b = self.support
        return _like(radius, np.minimum(b, (a + b) - self._upper_side()(check_radii(radius))))

    @overload
    def radius(self, *, at_least: float) -> float: ...
    @overload
    def radius(self, *, at_most: float) -> float: ...
    @overload
    def radius(self, *, at_least: Many) -> NDArray[np.float64]: ...
    @overload
    def radius(self, *, at_most: Many) -> NDArray[np.float64]: ...
    def radius(
        self, *, at_least: ArrayLike | None = None, at_most: ArrayLike | None = None
    ) -> float | NDArray[np.float64]:
        """The largest radius with ``lower(radius) >= at_least``, or with ``upper(radius) <= at_most``.

        0.0 also when the bound does not hold even at x (:meth:`holds` tells the two apart), infinity when it holds everywhere.
        Rounded down, to within 1e-9 of the noise's scale; at a positive radius returned the bound still passes. Arrays are welcome.
        """
        if _one_of(at_least, at_most) is at_least:
            thresholds, side = _thresholds("at_least", at_least), self.below
        else:
            a, b = self.support
            thresholds, side = (a + b) - _thresholds("at_most", at_most), self._upper_side()
        found = [largest_radius(side, float(c), unit=self.noise.scale) for c in thresholds.ravel()]
        return _like(thresholds, np.array(found, dtype=np.float64).reshape(thresholds.shape))

    @overload
    def holds(self, *, at_least: float, radius: float = 0.0) -> bool: ...
    @overload
    def holds(self, *, at_most: float, radius: float = 0.0) -> bool: ...
    @overload
    def holds(self, *, at_least: Many, radius: float = 0.0) -> NDArray[np.bool_]: ...
    @overload
    def holds(self, *, at_most: Many, radius: float = 0.0) -> NDArray[np.bool_]: ...
    def holds(
        self, *, at_least: ArrayLike | None = None, at_most: ArrayLike | None = None, radius: float = 0.0
    ) -> bool | NDArray[np.bool_]:
        """Whether the bound is certified within ``radius``, by default at x itself.

        It tells apart what a :meth:`radius` of 0.0 leaves open: a bound that holds at x only, and one that does not hold.
        """
        if _one_of(at_least, at_most) is at_least:
            passed = self.lower(check_radius(radius)) >= _thresholds("at_least", at_least)
        else:
            passed = self.upper(check_radius(radius)) <= _thresholds("at_most", at_most)
        return bool(passed) if np.ndim(passed) == 0 else np.asarray(passed, dtype=np.bool_)

    def _upper_side(self) -> RadiusBound:
        if self.above is None:
            raise NotClaimed(
                'this curve has a lower side only, and all of its alpha was spent there; ask for sides="both"'
            )
        return self.above

    def __repr__(self) -> str:
        kind = "certificate" if self.guaranteed else "estimate, not a certificate"
        return f"Curve({self.method}, {self.noise}, alpha={self.alpha:g}, sides={self.sides!r}: {kind})"


@dataclass(frozen=True, eq=False)
class Curves:
    """One curve per input. Each is a certificate on its own, with its own alpha; nothing is claimed jointly."""

    curves: Sequence[Curve]

    def __len__(self) -> int:
        return len(self.curves)

    def __getitem__(self, position: int) -> Curve:
        return self.curves[position]

    def lower(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Lower bounds, shape (inputs, *radius.shape)."""
        radii = check_radii(radius)
        return np.array([curve.lower(radii) for curve in self.curves]).reshape(len(self), *radii.shape)

    def upper(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Upper bounds, shape (inputs, *radius.shape)."""
        radii = check_radii(radius)
        return np.array([curve.upper(radii) for curve in self.curves]).reshape(len(self), *radii.shape)

    def radius(self, *, at_least: ArrayLike) -> NDArray[np.float64]:
        """Largest certified radii, shape (inputs, *at_least.shape)."""
        thresholds = check_numbers("at_least", at_least)
        found = np.array([curve.radius(at_least=thresholds) for curve in self.curves])
        return found.reshape(len(self), *thresholds.shape)


def _one_of(at_least: ArrayLike | None, at_most: ArrayLike | None) -> ArrayLike:
    if at_least is not None and at_most is None:
        return at_least
    if at_most is not None and at_least is None:
        return at_most
    raise InvalidArgument("give exactly one of at_least= (lower side) and at_most= (upper side)")


def _thresholds(name: str, given: ArrayLike | None) -> NDArray[np.float64]:
    found = check_numbers(name, given)
    if np.isnan(found).any():
        raise InvalidArgument("a confidence threshold must be a number, got nan")
    return found


def _like(asked: ArrayLike, answer: NDArray[np.float64]) -> float | NDArray[np.float64]:
    return float(answer) if np.ndim(asked) == 0 else answer
