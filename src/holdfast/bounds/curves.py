"""Many curves at once: bounds for a whole dataset, vectorised over inputs, radii and thresholds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds.bound import DEFAULT_METHOD, bound
from holdfast.bounds.curve import Curve
from holdfast.bounds.method import Method
from holdfast.scores import Scores


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
        radii = np.asarray(radius, dtype=np.float64)
        return np.array([curve.lower(radii) for curve in self.curves]).reshape(len(self), *radii.shape)

    def upper(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Upper bounds, shape (inputs, *radius.shape)."""
        radii = np.asarray(radius, dtype=np.float64)
        return np.array([curve.upper(radii) for curve in self.curves]).reshape(len(self), *radii.shape)

    def radius(self, *, at_least: ArrayLike) -> NDArray[np.float64]:
        """Largest certified radii, shape (inputs, *at_least.shape)."""
        thresholds = np.asarray(at_least, dtype=np.float64)
        return np.array([curve.radius(at_least=thresholds) for curve in self.curves]).reshape(
            len(self), *thresholds.shape
        )


def bound_many(
    scores: Iterable[Scores], *, alpha: float, method: Method = DEFAULT_METHOD, sides: str = "lower"
) -> Curves:
    """:func:`bound` for each of many inputs; ``alpha`` is each certificate's, as in the papers' tables."""
    return Curves([bound(each, alpha=alpha, method=method, sides=sides) for each in scores])
