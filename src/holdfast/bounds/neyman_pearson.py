"""The Neyman-Pearson curve of Gaussian noise: how much probability can an event lose when the input moves?

Lemma 2 of the paper: among all events of probability p around x, the half-space that the perturbation moves away from
loses most. Its probability around x', at distance R, is ``g_r(p) = Phi(Phi^-1(p) - r)`` with ``r = R / sigma``.
``g_r`` is convex for r >= 0, increasing in p and decreasing in r.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri


def quantile(p: ArrayLike) -> NDArray[np.float64]:
    """``z = Phi^-1(p)``, so that ``g_r(p) = Phi(z - r)``."""
    return np.asarray(ndtri(p), dtype=np.float64)


def shifted(z: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """``g_r(p)`` for ``z = Phi^-1(p)``."""
    return np.asarray(ndtr(np.subtract(z, r)), dtype=np.float64)


def least_probability(p: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """``g_r(p)``: the least probability, r standard deviations away, of an event that has probability p here.

    Source:
        Kumar et al. 2020, Lemma 2 (Neyman & Pearson 1933), first statement. The greatest is ``1 - g_r(1 - p)``.
    """
    return shifted(quantile(p), r)
