"""Scores of noisy copies, as every bound sees them: at which thresholds, how many samples reach them?"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument
from holdfast.noise import Noise, plain_noise, sigma_of


@dataclass(frozen=True, eq=False)
class Exceedances:
    """Of ``n`` samples, ``counts[j]`` are at least ``thresholds[j]``; thresholds ascend, counts do not.

    The survival function ``p(s) = P(X >= s)`` is estimated at ``thresholds[j]`` by ``counts[j] / n``.
    """

    thresholds: NDArray[np.float64]
    counts: NDArray[np.int64]
    n: int
    support: tuple[float, float]

    @property
    def widths(self) -> NDArray[np.float64]:
        """``s_j - s_{j-1}`` with ``s_0 = a``: the weights of the paper's sum."""
        return np.diff(self.thresholds, prepend=self.support[0])

    @property
    def mean(self) -> float:
        """The sample mean, as the area under the empirical survival function."""
        return self.support[0] + float(np.sum(self.widths * self.counts)) / self.n

    def at_ranks(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the samples of these ranks (1 is the smallest) sit: the last threshold that ``n + 1 - rank`` samples reach."""
        return np.searchsorted(-self.counts, ranks - (self.n + 1), side="right") - 1

    @property
    def multiplicities(self) -> NDArray[np.int64]:
        """How many samples have each threshold as their value."""
        return -np.diff(self.counts, append=0)

    @property
    def variance(self) -> float:
        """The unbiased sample variance."""
        squares = float(np.sum(self.multiplicities * (self.thresholds - self.mean) ** 2))
        return squares / (self.n - 1)


@lru_cache(maxsize=256)
def spread_ranks(n: int, growth: float) -> NDArray[np.int64]:
    """Ranks from 1 to n: all of them near both ends, then ever sparser, by a share ``growth`` of the distance to the end."""
    chosen = [1]
    while chosen[-1] < n:
        i = chosen[-1]
        chosen.append(min(n, i + max(1, int(growth * min(i, n - i)))))
    ranks = np.array(chosen, dtype=np.int64)
    ranks.flags.writeable = False
    return ranks


class Scores(ABC):
    """A sample of one score's values under noise, in a known range."""

    support: tuple[float, float]
    noise: Noise

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it is Gaussian."""
        return sigma_of(plain_noise(self.noise))

    @property
    @abstractmethod
    def n(self) -> int:
        """How many samples there are."""

    @abstractmethod
    def survival_lower(self) -> Exceedances:
        """Exceedances of a score that is nowhere above this one; for lower bounds."""

    @abstractmethod
    def survival_upper(self) -> Exceedances:
        """Exceedances of the *reflected* score ``a + b - X``, nowhere above the reflection; for upper bounds."""

    def blocks(self, sizes: Sequence[int]) -> "list[Scores]":  # noqa: ARG002
        """The samples in blocks, in the order of their arrival; counts have none."""
        raise InvalidArgument(
            "a histogram has forgotten in which order its samples came, which a tangent needs; "
            "use ScoreSamples, a certificate or a run, whose seed gives an order, or a band: CDF(band=BerkJones())"
        )
