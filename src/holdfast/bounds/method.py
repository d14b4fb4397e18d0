"""What a method is: from score samples to a curve in the radius."""

from abc import ABC, abstractmethod

from holdfast.bounds.curve import Curve
from holdfast.bounds.steps import Steps
from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides


class Method(ABC):
    """One of the paper's theorems with the statistics that feed it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for tables and for the command line."""

    @property
    @abstractmethod
    def guaranteed(self) -> bool:
        """False if any part is a plug-in estimate: its curves are not certificates."""

    @abstractmethod
    def level(self, alpha: float, sides: Sides) -> float:
        """The alpha of each side, when both sides share ``alpha``."""

    @abstractmethod
    def steps(self, samples: Exceedances, alpha: float) -> Steps:
        """The lower side, valid with probability at least ``1 - alpha``."""

    def curve(self, scores: Scores, alpha: float, sides: Sides) -> Curve:
        """Both sides as asked. The upper side is the lower side of the reflected score."""
        level = self.level(alpha, sides)
        return Curve(
            sigma=scores.sigma,
            alpha=alpha,
            method=self.name,
            guaranteed=self.guaranteed,
            support=scores.support,
            below=self.steps(scores.from_below(), level),
            above=self.steps(scores.from_above(), level) if sides == "both" else None,
        )
