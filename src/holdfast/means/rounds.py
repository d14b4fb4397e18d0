"""A gambler's rounds: what she holds against "the mean is at most theta" after betting on a block of samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BOLDEST = 0.98
"""The largest share of her wealth that the gambler can lose to one sample."""


@dataclass(frozen=True, eq=False)
class Payoff:
    """A block of samples of a variable in [0, ``most``] whose mean is at most ``theta - constant`` under the hypothesis.

    Samples come in groups; ``mean`` and ``variance`` are what earlier samples let expect.

    Attributes:
        y: the mean of each group.
        low: at most its smallest sample.
        spans: how far apart its samples are at most.
        counts: how many they are.
    """

    constant: float
    most: float
    mean: float
    variance: float
    y: NDArray[np.float64]
    low: NDArray[np.float64]
    spans: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many samples."""
        return int(self.counts.sum())

    def played(self, stake: "float | NDArray[np.float64]") -> "BettingRound":
        """Bet ``stake``, but not so much that a sample at the bottom ruins, on every sample; one for each of several gamblers.

        Within a group samples are represented by their mean; the wealth that this could overstate (Taylor's remainder,
        Popoviciu's inequality) is subtracted.
        """
        bet = np.minimum(stake, BOLDEST / self.most)[..., None]
        ruin = 1 + bet * (self.low - self.most)
        overstated = np.sum(self.counts * (bet * self.spans / ruin) ** 2, axis=-1) / 8
        return BettingRound(self.constant, self.most, self.y, self.counts, bet[..., 0], overstated)


@dataclass(frozen=True, eq=False)
class BettingRound:
    """What gamblers hold in one block: ``prod (1 + bet (y - (theta - constant)))``, each with a bet of her own."""

    constant: float
    most: float
    y: NDArray[np.float64]
    counts: NDArray[np.int64]
    bet: NDArray[np.float64]
    overstated: NDArray[np.float64]

    @property
    def estimate(self) -> float:
        """Where the block's own average would put theta."""
        return self.constant + float(np.sum(self.counts * self.y) / self.counts.sum())

    def log_wealth(self, theta: "float | NDArray[np.float64]") -> NDArray[np.float64]:
        """The logarithm of the wealth, never above the truth. No mean is above ``most``, whatever theta says."""
        gain = self.bet[..., None] * (self.y - np.minimum(theta - self.constant, self.most)[..., None])
        return np.asarray(np.log1p(gain) @ self.counts - self.overstated)

    def slope(self, theta: float) -> float:
        """How fast it falls as theta rises, of a single gambler."""
        return float(np.sum(self.counts * self.bet / (1 + self.bet * (self.y - theta + self.constant))))

    def of(self, gambler: int) -> "BettingRound":
        """One gambler's; where they have not parted yet, all have the same."""
        if self.bet.ndim == 0:
            return self
        return BettingRound(self.constant, self.most, self.y, self.counts, self.bet[gambler], self.overstated[gambler])


def needed_wealth(alpha: float) -> float:
    """The logarithm that wealth must reach, ``1 / alpha``, and a little for rounding."""
    return float(np.log(1 / alpha) * (1 + 1e-12) + 1e-9)


def largest_refuted(rounds: "list[BettingRound]", needed: float, highest: float = np.inf) -> float:
    """The largest theta, at most ``highest``, against which one gambler's wealth is enough; at least 0.

    Wealth falls as theta rises and its logarithm is concave, so Newton's steps from above come down on the root.
    """
    theta = min(max(each.estimate for each in rounds), min(each.constant + each.most for each in rounds), highest)
    scale = max(each.most for each in rounds)
    for _ in range(60):
        if theta <= 0:
            return 0.0
        short = needed - float(sum(each.log_wealth(theta) for each in rounds))
        if short <= 0:
            return theta
        falls = sum(each.slope(theta) for each in rounds)
        theta -= max(short / falls, 1e-13 * scale) if falls > 0 else theta
    return 0.0
