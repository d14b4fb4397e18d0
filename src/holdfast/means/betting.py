"""Betting against a mean: the tightest bounds for bounded scores.

A gambler who believes that the mean is above m bets a fraction on every sample; if the mean is at most m, the expected
wealth never grows, so reaching 1/alpha has probability at most alpha (Markov; for all times at once, Ville). The lower
confidence bound is the largest m that the gambler has made incredible.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.means.mean import MeanBound
from holdfast.scores import Exceedances
from holdfast.validation import Sides, per_side

_STRATEGIES = 12


@dataclass(frozen=True)
class Betting(MeanBound):
    """The mean bound of a gambler who divides the stake among twelve constant bets, each half as bold as the one before.

    Guarantee:
        At most ``E X`` with probability at least ``1 - alpha``. The wealth is a test martingale whatever the order of
        the samples, so the bound also holds at a time chosen by looking at it (optional stopping).
    Requires:
        Independent samples in [a, b].
    Source:
        I. Waudby-Smith & A. Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024).
        Departure: a mixture of constant bets instead of predictable ones. Its wealth does not depend on the order, so it
        can be computed from counts that were merged.
    """

    name = "betting"

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:
        """The largest mean with a wealth of ``1/alpha`` against it."""
        a, b = samples.support
        values = (samples.values - a) / (b - a)
        bets = np.exp2(-np.arange(_STRATEGIES, dtype=np.float64))
        return a + (b - a) * lower_by_bets(values, samples.multiplicities, bets, math.log(1 / per_side(alpha, sides)))


def lower_by_bets(
    values: NDArray[np.float64], counts: NDArray[np.int64], bets: NDArray[np.float64], goal: float
) -> float:
    """The largest m in [0, 1] such that the average wealth of the bets against it is at least ``exp(goal)``; 0 if none.

    Values are nonnegative, and a bet of ``l`` multiplies the wealth by ``1 + l (x - m)``: with ``l <= 1`` and ``m <= 1`` it
    never ruins the gambler. Wealth falls as m rises, so the answer is a root, approached from the safe side.
    """

    def log_wealth(m: float) -> float:
        each = (np.log1p(bets[:, None] * (values - m)) * counts).sum(axis=1)
        best = float(each.max())
        return best + math.log(float(np.mean(np.exp(each - best))))

    return largest_incredible(log_wealth, goal, float(np.sum(counts * values) / counts.sum()))


def largest_incredible(log_wealth: Callable[[float], float], goal: float, mean: float) -> float:
    """The largest m below the sample mean with ``log_wealth(m) >= goal``; rounding is paid for by a slightly larger goal."""
    safe_goal = goal * (1 + 1e-12) + 1e-9
    if log_wealth(0.0) < safe_goal:
        return 0.0
    good, bad = 0.0, mean
    good_wealth, bad_wealth = log_wealth(good), log_wealth(bad)
    for _ in range(200):
        if bad - good <= 1e-12 * max(bad, 1e-3):
            break
        # Wealth is nearly a square near the mean: interpolate its root, and fall back on halving if that stalls.
        share = (good_wealth - safe_goal) / (good_wealth - bad_wealth)
        middle = good + (bad - good) * min(max(share, 0.02), 0.98)
        wealth = log_wealth(middle)
        if wealth >= safe_goal:
            good, good_wealth = middle, wealth
        else:
            bad, bad_wealth = middle, wealth
    return good
