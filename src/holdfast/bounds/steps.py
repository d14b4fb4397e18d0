"""A staircase below a survival function, and what Theorem 2 makes of it.

Theorem 2 bounds the expected score at distance R by ``a + sum_j (s_j - s_{j-1}) g_R(L_j)``: a weighted sum of
Neyman-Pearson curves, one for each step of a staircase ``L <= p``. Theorem 1 is the same with a single step. Of the noise,
only ``g_R`` enters (:meth:`holdfast.noise.Noise.least_probability`).
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from holdfast.bounds.curve import RadiusBound
from holdfast.noise import Noise
from holdfast.scores import Exceedances
from holdfast.scores.rounding import SLACK, probability_down

_EXACT_UP_TO = 4_096
_SPACING = 0.002


def step_bound(at: Exceedances, probabilities: NDArray[np.float64], *, noise: Noise, guaranteed: bool) -> RadiusBound:
    """``a + sum_j (s_j - s_{j-1}) g_R(p_j)`` for thresholds ``s_j`` of ``at``; probabilities descend as thresholds rise.

    Guarantee:
        If each ``p_j`` is at most the probability that the score reaches ``s_j``, the value at R is at most the expected
        score at every point within radius R, in the norm of the noise.
    Source:
        Kumar et al. 2020, Theorem 2 (many steps) and Theorem 1 (one step).
    """
    weights, p = at.widths, probabilities
    rises = (weights > 0) & (p > 0)
    weights, p = weights[rises], p[rises]
    if p.size > _EXACT_UP_TO:
        weights, p = merge_steps(weights, p)
    a, b = at.support
    return partial(_weighted_sum, a, weights, noise.decay(p), SLACK * (b - a) if guaranteed else 0.0)


def _weighted_sum(
    a: float,
    weights: NDArray[np.float64],
    decay: Callable[[float], NDArray[np.float64]],
    slack: float,
    radius: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The sum at each radius, where ``decay(R)`` is all ``g_R(p_j)`` at once; never below a."""
    total = np.array([np.dot(decay(float(each)), weights) for each in radius.ravel()], dtype=np.float64)
    return np.maximum(a, a + total.reshape(radius.shape) - slack)


def merge_steps(
    weights: NDArray[np.float64], p: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Merge neighbouring steps of nearly equal probability into their average.

    Guarantee:
        ``g_R`` is convex, so ``sum w_i g_R(p_i) >= (sum w_i) g_R(average p)``: the merged sum is never above the original
        one. (Upper bounds are lower bounds of the reflected score, so the same serves them.) Under Gaussian noise, steps
        within 0.002 in ``Phi^-1`` differ from their average to second order only: the loss at 3 sigma is below 1e-5.
    """
    ascending_p, ascending_w = p[::-1], weights[::-1]
    certain = int(np.searchsorted(ascending_p, 1.0))
    cuts = np.searchsorted(ascending_p[:certain], _levels())
    cuts = np.concatenate(([0], cuts[cuts < certain]))
    starts = cuts[np.diff(cuts, prepend=-1) > 0]
    w = np.add.reduceat(ascending_w[:certain], starts)
    average = probability_down(np.add.reduceat(ascending_w[:certain] * ascending_p[:certain], starts) / w)
    rest = float(ascending_w[certain:].sum())
    if rest > 0:
        w, average = np.append(w, rest), np.append(average, 1.0)
    return w[average > 0], average[average > 0]


@cache
def _levels() -> NDArray[np.float64]:
    return np.asarray(ndtr(np.arange(-8.0, 8.0, _SPACING)), dtype=np.float64)
