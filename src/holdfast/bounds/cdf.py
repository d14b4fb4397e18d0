"""Theorem 2: the CDF bound, from the whole distribution of the scores."""

from dataclasses import dataclass, field

import numpy as np

from holdfast.bands import Band, BerkJones
from holdfast.bounds.curve import RadiusBound
from holdfast.bounds.method import Method
from holdfast.bounds.steps import step_bound
from holdfast.errors import InvalidArgument
from holdfast.means import View
from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides, check_count


@dataclass(frozen=True)
class CDF(Method):
    """``fbar(x') >= a + sum_j (s_j - s_{j-1}) g_R(L_j)`` with ``L_j`` lower bounds on ``P(X >= s_j)``.

    Guarantee:
        Holds for every radius at once whenever the band holds at every threshold: with probability at least
        ``1 - alpha``. Any choice of thresholds is sound, also one made from the samples, because the band is simultaneous.
    Source:
        Kumar et al. 2020, Theorem 2. Departure: by default every order statistic is a threshold, which can only raise
        the bound; ``thresholds=n`` takes the paper's n equal-count ones (section 5.2: positions ``1 + (i - 1) m / n``).
    """

    band: Band = field(default_factory=BerkJones)
    thresholds: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.band, Band):
            raise InvalidArgument(
                f"CDF takes a band, such as BerkJones() or DKW(), got {self.band!r}; a mean bound goes into Naive(mean=...)"
            )
        if self.thresholds is not None:
            check_count("thresholds", self.thresholds)

    @property
    def name(self) -> str:
        """``cdf-`` and the band's name."""
        return f"cdf-{self.band.name}" + ("" if self.thresholds is None else f"-{self.thresholds}")

    @property
    def guaranteed(self) -> bool:
        """Whether the band is one."""
        return self.band.guaranteed

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """One step per threshold."""
        samples = view(scores)
        at = samples if self.thresholds is None else equal_count(samples, self.thresholds)
        survival = self.band.lower(at.counts, at.n, alpha, sides)
        return step_bound(at, survival, noise=scores.noise, guaranteed=self.guaranteed)


def equal_count(samples: Exceedances, thresholds: int) -> Exceedances:
    """The paper's thresholds: in sorted order, the samples at positions ``1 + (i - 1) m / n`` for i = 1, ..., n."""
    rank = samples.at_ranks(1 + np.arange(thresholds, dtype=np.int64) * samples.n // thresholds)
    # Of equal thresholds the first counts all that reach them.
    where = np.unique(np.searchsorted(samples.thresholds, samples.thresholds[rank], side="left"))
    return Exceedances(samples.thresholds[where], samples.counts[where], samples.n, samples.support)
