"""What no certificate of a kind can exceed: Theorems 1 and 2 with what was sampled in place of bounds on it."""

import numpy as np
from numpy.typing import NDArray

import holdfast as hf


def empirical_mean(scores: hf.ScoreHistogram) -> float:
    """The mean of the samples, each counted as the upper end of its bin: never below the samples' own mean."""
    a, b = scores.support
    return (a + b) - scores.survival_upper().mean


def best_possible(scores: hf.ScoreHistogram, radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """``a + (b - a) Phi(Phi^-1((e - a) / (b - a)) - R / sigma)`` with e the empirical mean. Not a certificate.

    The naive bound increases with the lower bound on the mean that it is given, and no useful lower bound is above the
    empirical mean: whatever inequality replaces Hoeffding's, the naive certificate stays below this line.

    Source:
        Kumar et al. 2020, appendix C and inequality (1). Stored samples have been rounded to a grid; they count as
        the upper ends of their bins here, so that the grid never makes the rival look worse than it is.
    """
    a, b = scores.support
    share = (empirical_mean(scores) - a) / (b - a)
    return a + (b - a) * scores.noise.least_probability(np.clip(share, 0.0, 1.0), radii)


def limit(scores: hf.ScoreHistogram, radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Theorem 2 at the empirical distribution: what certificates tend to with more samples. Not a certificate.

    Here too samples count as the upper ends of their bins, so that the two lines can be compared.
    """
    raised = np.concatenate(([0], scores.counts[:-2], [scores.counts[-2:].sum()]))
    upper = hf.ScoreHistogram(raised, support=scores.support, noise=scores.noise)
    return hf.bound(upper, alpha=0.5, method=hf.CDF(hf.Empirical())).lower(radii)
