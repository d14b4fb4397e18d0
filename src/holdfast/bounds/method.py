"""What a method is: from score samples to a curve in the radius."""

from abc import ABC, abstractmethod

from holdfast.bands import Band
from holdfast.bounds.curve import RadiusBound
from holdfast.errors import InvalidArgument
from holdfast.means import MeanBound, View
from holdfast.noise import Noise
from holdfast.scores import Scores
from holdfast.validation import Sides


class Method(ABC):
    """One of the paper's theorems with the statistics that feed it."""

    needs_order = False
    """True if samples must come in an order: that of their arrival, or a random one."""

    requires: tuple[type[Noise], ...] = ()
    """Kinds of noise that it holds for; empty if it holds for every noise."""

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

    def check_noise(self, noise: Noise) -> None:
        """Refuse a noise for which the method does not hold, before any work is done."""
        if not all(isinstance(noise, kind) for kind in self.requires):
            kinds = " and ".join(dict.fromkeys(kind.kind for kind in self.requires))
            raise InvalidArgument(
                f"{self.name} holds for {kinds} noise only, got {noise}; use CDF(band=BerkJones()), which holds for every "
                f"noise, or Tangent(radius=R) for one radius"
            )


def check_method(method: object) -> None:
    """Refuse what is no method: a name, a class, a band or a mean alone."""
    if isinstance(method, Method):
        return
    inside = ""
    if isinstance(method, Band):
        inside = f"; a band is a part of one: CDF(band={method!r})"
    elif isinstance(method, MeanBound):
        inside = f"; a bound on the mean is a part of one: Naive(mean={method!r})"
    raise InvalidArgument(
        f"method must be one such as CDF(band=DKW()) or Naive(mean=Hoeffding()), got {method!r}{inside}"
    )
