"""Whether two sets of counts can be of one smoothed classifier: p-values that are valid for every number of copies."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import gammaln

from holdfast.certificates.evidence import Selection
from holdfast.scores import ScoreHistogram

_BINS = 256
"""Where two histograms are compared: the last digits of scores near the ends of the support differ from device to device."""


def votes_p_value(stored: int, fresh: int, n: int) -> float:
    """Fisher's exact test for two shares, of ``n`` copies each.

    Guarantee:
        If both are of one smoothed classifier, it is at most p with probability at most p, for every p.
    Requires:
        Independent copies.
    Source:
        R. A. Fisher, "Statistical Methods for Research Workers" (1934 and later), section 21.02; both tails, the smaller twice.
    """
    law = scipy.stats.hypergeom(2 * n, stored + fresh, n)
    return min(1.0, 2 * min(float(law.cdf(stored)), float(law.sf(stored - 1))))


def histogram_p_value(stored: ScoreHistogram, fresh: ScoreHistogram) -> float:
    """Smirnov's two-sample test, for as many copies in both, at a few hundred thresholds.

    Guarantee:
        If both are of one smoothed classifier, it is at most p with probability at most p, for every p.
    Requires:
        Independent copies, ``n`` in both. Ties and fewer thresholds make the largest difference smaller, never larger.
    Source:
        B. Gnedenko & V. Korolyuk, "On the maximum discrepancy between two empirical distributions" (1951): without ties the
        counts below a threshold differ by k or more, to one side, with probability ``C(2n, n+k) / C(2n, n)`` (a walk of
        2n steps back to zero, reflected at k). Here twice that, for both sides.
    """
    n, difference = stored.n, np.cumsum(_coarse(stored)) - np.cumsum(_coarse(fresh))
    k = int(np.abs(difference).max())
    if k == 0:
        return 1.0
    return min(1.0, 2 * math.exp(2 * gammaln(n + 1) - gammaln(n + k + 1) - gammaln(n - k + 1)))


def selection_p_value(chosen: int, fresh: Selection) -> float:
    """Whether ``n0`` copies can have chosen a class when as many fresh ones have these averages; one for a near tie.

    Guarantee:
        If both are of one smoothed classifier, it is at most p with probability at most p, for every p.
    Requires:
        Independent copies.
    Source:
        Hoeffding 1963. Let the class be behind another by d on average. That it was ahead on n0 copies, and is behind by t or
        more on others, has probability at most ``exp(-n0 d^2/2) exp(-n0 (t-d)^2/2) <= exp(-n0 t^2/4)`` for d within [0, t], and
        at most ``exp(-n0 t^2/2)`` otherwise; all pairs of classes are counted, since either may be any.
    """
    behind, classes = float(fresh.averages.max() - fresh.averages[chosen]), len(fresh.sums)
    return min(1.0, classes * (classes - 1) * math.exp(-fresh.n0 * behind**2 / 4))


def _coarse(histogram: ScoreHistogram) -> NDArray[np.int64]:
    """Counts between a few edges of the grid; the end of the support is no bin of its own."""
    bins = histogram.grid.bins
    factor = max(1, bins // _BINS)
    merged: NDArray[np.int64] = np.add.reduceat(histogram.counts, np.arange(0, bins, factor))
    return merged
