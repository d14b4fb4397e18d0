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
    def steps(self, samples: Exceedances, alpha: float, sides: Sides) -> Steps:
        """The lower side; with the reflected score's, if both are asked for, within the same ``alpha``."""

    def curve(self, scores: Scores, alpha: float, sides: Sides) -> Curve:
        """Both sides as asked. The upper side is the lower side of the reflected score."""
        return Curve(
            sigma=scores.sigma,
            alpha=alpha,
            method=self.name,
            guaranteed=self.guaranteed,
            support=scores.support,
            below=self.steps(scores.from_below(), alpha, sides),
            above=self.steps(scores.from_above(), alpha, sides) if sides == "both" else None,
        )
