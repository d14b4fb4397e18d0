"""Betting against a mean: the tightest bounds for bounded scores.

A gambler who believes that the mean is above m bets a fraction on every sample; if the mean is at most m, the expected
wealth never grows, so reaching 1/alpha has probability at most alpha (Markov; for all times at once, Ville). The lower
confidence bound is the largest m that the gambler has made incredible.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
        values, counts = (samples.thresholds - a) / (b - a), samples.multiplicities
        bets = np.exp2(-np.arange(_STRATEGIES, dtype=np.float64))

        def log_wealth(m: float) -> float:
            # A bet of l multiplies the wealth by 1 + l (x - m): with l <= 1 and m <= 1 it never ruins the gambler.
            each = (np.log1p(bets[:, None] * (values - m)) * counts).sum(axis=1)
            best = float(each.max())
            return best + math.log(float(np.mean(np.exp(each - best))))

        mean = float(np.sum(counts * values) / counts.sum())
        return a + (b - a) * _largest_incredible(log_wealth, math.log(1 / per_side(alpha, sides)), mean)


def _largest_incredible(log_wealth: Callable[[float], float], goal: float, mean: float) -> float:
    """The largest m in [0, mean] with ``log_wealth(m) >= goal``, approached from below; 0 if there is none.

    Wealth falls as m rises, so the answer is a root. Rounding is paid for by a slightly larger goal.
    """
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
