"""The exact probability that an empirical distribution leaves a band somewhere.

For n independent uniform numbers let ``N(t)`` be how many are at most t. A band of order-statistic bounds fails exactly when
``N`` leaves a corridor ``least_k <= N(t_k) <= most_k`` at one of finitely many times. ``N`` is a Poisson process of rate n,
given that it ends at n; a Poisson process has independent increments, so the distribution of ``N(t_k)`` on the paths that
have stayed inside is pushed from one time to the next by a convolution, and what falls outside is what we want.

Every term is positive and is summed as itself (never as one minus something), so small probabilities keep their relative
precision; whatever is cut off on the way is added to the answer. The result is an upper bound, exact to between 1e-9 and 2e-7 as n goes
from small to ten million.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

_RELATIVE_CUT = 1e-10


def crossing_probability(
    n: int,
    times: NDArray[np.float64],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    *,
    about: float,
) -> float:
    """The probability that ``least_k <= N(t_k) <= most_k`` fails for some k; never below the truth.

    Guarantee:
        At least the true probability, and above it by at most 1e-6 of ``about`` (the order of magnitude expected, such as
        alpha): what is cut off on the way is counted as escaped.
    Requires:
        ``times`` ascend within (0, 1); ``least`` and ``most`` do not descend.
    Source:
        Conditioning a Poisson process: E. Khmaladze & E. Shinjikashvili, Advances in Applied Probability 33 (2001);
        by convolutions: A. Moscovich & B. Nadler, Statistics & Probability Letters 123 (2017). Departure: plain
        convolutions instead of fast Fourier transforms, whose rounding would drown probabilities of 1e-9.
    """
    if len(times) == 0:
        return 0.0
    end = _log_poisson(np.array([n]), float(n))[0]
    cut = _RELATIVE_CUT * about / len(times)
    log_cut = math.log(1 / cut) - end
    escaped = 0.0
    inside, lowest, before = np.ones(1), 0, 0.0
    for t, low, high in zip(times, least, most, strict=True):
        mean = n * (t - before)
        first, kernel = _increments(mean, log_cut)
        inside = np.convolve(inside, kernel)
        lowest, before = lowest + first, float(t)
        counts = np.arange(lowest, lowest + len(inside))
        # Given N(t) = m, the chance that the process ends at n, over the chance that it ends there at all.
        to_end = np.where(counts <= n, np.exp(_log_poisson(np.maximum(n - counts, 0), n * (1 - t)) - end), 0.0)
        weighted = inside * to_end
        keep = (counts >= low) & (counts <= high)
        escaped += float(weighted[~keep].sum()) + 2 * cut
        inside, weighted = inside[keep], weighted[keep]
        lowest = max(lowest, int(low))
        if len(inside) == 0:
            return 1.0
        # What lies so far out that it hardly counts is let go, and counted as escaped.
        mass_below, mass_above = np.cumsum(weighted), np.cumsum(weighted[::-1])[::-1]
        start = int(np.searchsorted(mass_below, cut))
        stop = len(inside) - int(np.searchsorted(mass_above[::-1], cut))
        if stop <= start:
            return 1.0
        escaped += (float(mass_below[start - 1]) if start else 0.0) + (
            float(mass_above[stop]) if stop < len(inside) else 0.0
        )
        inside, lowest = inside[start:stop], lowest + start
    # Logarithms of Poisson probabilities lose a few units in the last place of n ln n.
    return min(1.0, escaped * (1 + 1e-9 + 2e-14 * n))


def _log_poisson(k: NDArray[np.int64], mean: float) -> NDArray[np.float64]:
    return np.asarray(xlogy(k, mean) - mean - gammaln(k + 1.0), dtype=np.float64)


def _increments(mean: float, log_cut: float) -> tuple[int, NDArray[np.float64]]:
    """Probabilities of a Poisson increment, but for a mass of at most ``2 exp(-log_cut)`` (Bernstein's inequality)."""
    first = max(0, math.floor(mean - math.sqrt(2 * mean * log_cut)))
    last = math.ceil(mean + log_cut / 3 + math.sqrt(log_cut**2 / 9 + 2 * mean * log_cut))
    return first, np.exp(_log_poisson(np.arange(first, last + 1), mean))
