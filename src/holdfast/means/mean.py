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
    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:
        """A number that is at most ``E X`` with probability at least ``1 - alpha``.

        With ``sides="both"`` the same bound for the reflected score holds too, within the same alpha.
        """
