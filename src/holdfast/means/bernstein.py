"""The empirical Bernstein bound: Hoeffding's, with the variance that was seen."""

import math
from dataclasses import dataclass

from holdfast.means.mean import MeanBound
from holdfast.scores import Exceedances
from holdfast.scores.rounding import SLACK
from holdfast.validation import Sides, per_side


@dataclass(frozen=True)
class EmpiricalBernstein(MeanBound):
    """The sample mean less ``sqrt(2 V ln(2/alpha) / n) + 7 (b - a) ln(2/alpha) / (3 (n - 1))``, V the sample variance.

    Guarantee:
        At most ``E X`` with probability at least ``1 - alpha``.
    Requires:
        Independent samples in [a, b].
    Source:
        A. Maurer & M. Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT 2009, Theorem 4.
    """

    name = "bernstein"

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:
        """The lower bound, never below a; vacuous for a single sample."""
        a, b = samples.support
        n = samples.n
        if n < 2:
            return a
        penalty = math.log(2 / per_side(alpha, sides))
        deviation = math.sqrt(2 * samples.variance * penalty / n) + 7 * (b - a) * penalty / (3 * (n - 1))
        return max(a, samples.mean - deviation - 10 * SLACK * (b - a))
