"""Theorem 1: the naive bound, from the mean of the scores alone."""

from dataclasses import dataclass, field

import numpy as np

from holdfast.bounds.curve import RadiusBound
from holdfast.bounds.method import Method
from holdfast.bounds.steps import step_bound
from holdfast.errors import InvalidArgument
from holdfast.means import Hoeffding, MeanBound, View
from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides


@dataclass(frozen=True)
class Naive(Method):
    """``fbar(x') >= a + (b - a) g_R((e - a) / (b - a))`` with e a lower bound on the mean.

    The worst case it guards against takes only the values a and b: under Gaussian noise, b on a half-space.

    Guarantee:
        Holds for every radius at once whenever ``e <= E X``: with probability at least ``1 - alpha``.
    Source:
        Kumar et al. 2020, Theorem 1.
    """

    mean: MeanBound = field(default_factory=Hoeffding)

    def __post_init__(self) -> None:
        if not isinstance(self.mean, MeanBound):
            raise InvalidArgument(
                f"Naive takes a mean bound, such as Hoeffding(), got {self.mean!r}; a band goes into CDF(band=...)"
            )

    @property
    def name(self) -> str:
        """``naive-`` and the mean bound's name."""
        return f"naive-{self.mean.name}"

    @property
    def guaranteed(self) -> bool:
        """Whether the mean bound is one."""
        return self.mean.guaranteed

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether the mean bound does."""
        return self.mean.needs_order

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """One step of full height."""
        samples = view(scores)
        a, b = samples.support
        share = np.clip(np.array([(self.mean.lower_of(scores, view, alpha, sides) - a) / (b - a)]), 0.0, 1.0)
        whole = Exceedances(np.array([b]), np.array([samples.n]), samples.n, samples.support)
        return step_bound(whole, share, noise=scores.noise, guaranteed=self.guaranteed)
