"""What a mean bound is: a lower bound on the expectation of one bounded score."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides

View = Callable[[Scores], Exceedances]
"""Either the score from below, or its reflection from below."""


class MeanBound(ABC):
    """Bounds the mean of a score. A mean bound is not a band: it says nothing about the distribution."""

    guaranteed = True
    """False for a plug-in estimate, which is drawn in figures and is not a certificate."""

    needs_order = False
    """True if samples must come in an order: that of their arrival, or a random one."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for tables and for the command line."""

    @abstractmethod
    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:
        """A number that is at most ``E X`` with probability at least ``1 - alpha``.

        With ``sides="both"`` the same bound for the reflected score holds too, within the same alpha.
        """

    def lower_of(self, scores: Scores, view: View, alpha: float, sides: Sides = "lower") -> float:
        """The same of scores as ``view`` shows them."""
        return self.lower(view(scores), alpha, sides)


@dataclass(frozen=True)
class EmpiricalMean(MeanBound):
    """The sample mean, taken as if it were exact. **Not a certificate.**

    The "best possible baseline" of the paper's appendix: no valid lower bound on the mean is above it in the long run,
    so no naive certificate beats the curve it draws.
    """

    guaranteed = False
    name = "empirical-mean"

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:  # noqa: ARG002
        """The sample mean: alpha plays no role."""
        return samples.mean
