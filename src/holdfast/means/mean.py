"""What a mean bound is: a lower bound on the expectation of one bounded score."""

from abc import ABC, abstractmethod

from holdfast.scores import Exceedances
from holdfast.validation import Sides


class MeanBound(ABC):
    """Bounds the mean of a score. A mean bound is not a band: it says nothing about the distribution."""

    guaranteed = True
    """False for a plug-in estimate, which is drawn in figures and is not a certificate."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for tables and for the command line."""

    @abstractmethod
    def lower(self, samples: Exceedances, alpha: float) -> float:
        """A number that is at most ``E X`` with probability at least ``1 - alpha``."""

    def level(self, alpha: float, sides: Sides) -> float:
        """The alpha of each side, when both sides share ``alpha``."""
        return alpha if sides == "lower" else alpha / 2
