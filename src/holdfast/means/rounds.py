"""A gambler's rounds: what she holds against "the mean is at most theta" after betting on a block of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Numbers = float | NDArray[np.float64]

BOLDEST = 0.98
"""The largest share of her wealth that the gambler can lose to one sample."""
_LONGER, _FLAT = 1 + 1e-6, 1e-300


@dataclass(frozen=True, eq=False)
class Payoff:
    """A block of samples of a variable in [0, ``most``] whose mean is at most ``theta - constant`` under the hypothesis.

    Samples come in groups; ``mean`` and ``variance`` are what earlier samples let expect. All but ``counts`` may have
    leading axes, for several variables of the same samples.

    Attributes:
        y: the mean of each group.
        low: at most its smallest sample.
        spans: how far apart its samples are at most.
        counts: how many they are.
    """

    constant: Numbers
    most: Numbers
    mean: Numbers
    variance: Numbers
    y: NDArray[np.float64]
    low: NDArray[np.float64]
    spans: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many samples."""
        return int(self.counts.sum())

    def played(self, stake: Numbers) -> "BettingRound":
        """Bet ``stake``, but not so much that a sample at the bottom ruins, on every sample; one for each of several gamblers.

        Within a group samples are represented by their mean; the wealth that this could overstate (Taylor's remainder,
        Popoviciu's inequality) is subtracted.
        """
        bet = np.asarray(np.minimum(stake, BOLDEST / self.most))[..., None]
        ruin = 1 + bet * (self.low - np.asarray(self.most)[..., None])
        overstated = np.sum(self.counts * (bet * self.spans / ruin) ** 2, axis=-1) / 8
        return BettingRound(self.constant, self.most, self.y, self.counts, bet[..., 0], overstated)


@dataclass(frozen=True, eq=False)
class BettingRound:
    """What gamblers hold in one block: ``prod (1 + bet (y - (theta - constant)))``, each with a bet of her own."""

    constant: Numbers
    most: Numbers
    y: NDArray[np.float64]
    counts: NDArray[np.int64]
    bet: NDArray[np.float64]
    overstated: NDArray[np.float64]

    @property
    def estimate(self) -> NDArray[np.float64]:
        """Where the block's own average would put theta."""
        return np.asarray(self.constant + (self.y @ self.counts) / self.counts.sum())

    def log_wealth(self, theta: Numbers) -> NDArray[np.float64]:
        """The logarithm of the wealth, never above the truth. No mean is above ``most``, whatever theta says."""
        gain = self.bet[..., None] * (self.y - np.asarray(np.minimum(theta - self.constant, self.most))[..., None])
        return np.asarray(np.log1p(gain) @ self.counts - self.overstated)

    def slope(self, theta: Numbers) -> NDArray[np.float64]:
        """How fast it falls as theta rises, of gamblers one for each theta."""
        bet = self.bet[..., None]
        return np.asarray((bet / (1 + bet * (self.y - np.asarray(theta - self.constant)[..., None]))) @ self.counts)

    def of(self, gambler: int) -> "BettingRound":
        """One gambler's; where they have not parted yet, all have the same."""
        if self.bet.ndim == 0:
            return self
        return BettingRound(self.constant, self.most, self.y, self.counts, self.bet[gambler], self.overstated[gambler])


def needed_wealth(alpha: float) -> float:
    """The logarithm that wealth must reach, ``1 / alpha``, and a little for rounding."""
    return float(np.log(1 / alpha) * (1 + 1e-12) + 1e-9)


def largest_refuted(rounds: Sequence[BettingRound], needed: float, highest: float = np.inf) -> NDArray[np.float64]:
    """The largest theta, at most ``highest``, against which one gambler's wealth is enough; at least 0.

    Wealth falls as theta rises and its logarithm is concave, so Newton's steps from above come down on the root. They are
    a trifle too long, to land beyond it. Rounds of several variables have one gambler, and one theta, each.
    """
    most = reduce(np.minimum, [each.constant + each.most for each in rounds])
    theta = np.minimum(np.minimum(reduce(np.maximum, [each.estimate for each in rounds]), most), highest)
    least_step = 1e-13 * reduce(np.maximum, [each.most for each in rounds])
    found = np.zeros(np.shape(theta), dtype=bool)
    for _ in range(60):
        short = needed - sum((each.log_wealth(theta) for each in rounds), np.zeros(()))
        found = (short <= 0) | (theta <= 0)
        if found.all():
            break
        falls = sum((each.slope(theta) for each in rounds), np.zeros(()))
        step = np.maximum(short * _LONGER / np.maximum(falls, _FLAT), least_step)
        theta = np.where(found, theta, np.maximum(theta - step, 0.0))
    return np.asarray(np.where(found, np.maximum(theta, 0.0), 0.0))
