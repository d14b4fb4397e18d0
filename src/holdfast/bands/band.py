"""What a band is: lower bounds on a whole survival function, all valid at once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.validation import Sides


class Band(ABC):
    """Bounds the distribution of a score: a lower bound on ``p(s) = P(X >= s)`` at every threshold simultaneously.

    A band sees only how many of n samples reach a threshold. Upper bounds come by reflection: ``P(X >= s)`` is one minus
    ``P(a + b - X > a + b - s)``, and the reflected score has a lower band of its own.
    """

    guaranteed = True
    """False for a plug-in estimate, which is drawn in figures and is not a certificate."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for tables and for the command line."""

    @abstractmethod
    def lower(self, counts: NDArray[np.int64], n: int, alpha: float, sides: Sides = "lower") -> NDArray[np.float64]:
        """Lower bounds on ``P(X >= s)`` where ``counts`` of the ``n`` samples are at least s.

        With probability at least ``1 - alpha`` they hold for every s at once. With ``sides="both"`` the same function
        applied to the reflected score holds too, within the same alpha.
        """


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
