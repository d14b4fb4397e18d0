"""What a method is: from score samples to a curve in the radius."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from holdfast.bounds.curve import Curve
from holdfast.bounds.radius_bound import RadiusBound
from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides

View = Callable[[Scores], Exceedances]
"""Either the score from below, or its reflection from below."""


class Method(ABC):
    """One of the paper's theorems with the statistics that feed it."""

    needs_order = False
    """True if samples must be kept in the order of their arrival."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for tables and for the command line."""

    @property
    @abstractmethod
    def guaranteed(self) -> bool:
        """False if any part is a plug-in estimate: its curves are not certificates."""

    @abstractmethod
    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """A lower bound for the score as ``view`` shows it; if both sides are asked for, each within the same ``alpha``."""

    def curve(self, scores: Scores, alpha: float, sides: Sides) -> Curve:
        """Both sides as asked. The upper side is the lower side of the reflected score."""
        return Curve(
            sigma=scores.sigma,
            alpha=alpha,
            method=self.name,
            guaranteed=self.guaranteed,
            support=scores.support,
            below=self.side(scores, lambda each: each.survival_lower(), alpha, sides),
            above=self.side(scores, lambda each: each.survival_upper(), alpha, sides) if sides == "both" else None,
        )
