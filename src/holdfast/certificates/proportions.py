"""Clopper & Pearson's bounds on a probability, from how often something happened in n independent trials."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from holdfast.errors import InvalidArgument
from holdfast.scores.rounding import SLACK
from holdfast.validation import SMALLEST_SHARE, check_alpha, check_count

LEVEL = 0.95
"""Confidence of the intervals in reports and figures, unless told otherwise."""


def clopper_pearson_lower(successes: int, n: int, alpha: float) -> float:
    """A lower bound on a probability from ``successes`` of ``n`` trials, rounded down.

    Guarantee:
        At most the probability, with probability at least ``1 - alpha``.
    Requires:
        Independent trials with the same probability.
    Source:
        C. Clopper & E. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934).
    """
    check_alpha(alpha, at_least=SMALLEST_SHARE)
    check_count("n", n)
    if successes <= 0:
        return 0.0
    if successes >= n:
        return float(math.exp(math.log(alpha) / n)) * (1 - SLACK)
    return float(betaincinv(successes, n - successes + 1, alpha)) * (1 - SLACK)


@dataclass(frozen=True)
class ShareIntervals:
    """For each number of successes of ``n``, both ends of an interval for the probability of a success.

    Guarantee:
        If the ``n`` trials are independent and succeed with the same probability, the interval of the observed number
        holds it with probability at least ``level``. Each radius and threshold has an interval of its own; nothing is
        claimed of several at once.
    Requires:
        For certified accuracy: inputs drawn independently from the population that is spoken of. Then a success is "a
        fresh input is right and certified". That some certificates are wrong (each with probability at most alpha) is
        no part of it.
    Source:
        Clopper & Pearson 1934; ends rounded outwards.
    """

    n: int
    level: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@lru_cache(maxsize=16)
def share_intervals(n: int, *, level: float = LEVEL) -> ShareIntervals:
    """The intervals of 0, 1, ..., n successes; half of ``1 - level`` on either side."""
    check_count("n", n)
    if not 0 < level < 1:
        raise InvalidArgument(f"the level of an interval must be between 0 and 1, such as 0.95, got {level}")
    lower = np.array([clopper_pearson_lower(k, n, (1 - level) / 2) for k in range(n + 1)])
    return ShareIntervals(n, level, lower, 1.0 - lower[::-1])
