"""How far a share of a sample may be from the share of whatever it was drawn from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from holdfast.errors import InvalidArgument
from holdfast.scores.rounding import SLACK
from holdfast.validation import check_count

LEVEL = 0.95
"""Confidence of the intervals in reports and figures, unless told otherwise."""


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


def share_intervals(n: int, *, level: float = LEVEL) -> ShareIntervals:
    """The intervals of 0, 1, ..., n successes; half of ``1 - level`` on either side."""
    check_count("n", n)
    if not 0 < level < 1:
        raise InvalidArgument(f"the level of an interval must be between 0 and 1, such as 0.95, got {level}")
    k = np.arange(n + 1)
    lower = np.zeros(n + 1)
    lower[1:] = betaincinv(k[1:], n - k[1:] + 1, (1 - level) / 2) * (1 - SLACK)
    return ShareIntervals(n, level, lower, 1.0 - lower[::-1])
