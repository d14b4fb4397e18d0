"""Hoeffding's inequality: what the paper's baseline uses."""

import math
from dataclasses import dataclass

from holdfast.means.mean import MeanBound
from holdfast.scores import Exceedances
from holdfast.scores.rounding import SLACK
from holdfast.validation import Sides, per_side


@dataclass(frozen=True)
class Hoeffding(MeanBound):
    """The sample mean less ``(b - a) sqrt(ln(1/alpha) / (2 n))``.

    Guarantee:
        At most ``E X`` with probability at least ``1 - alpha``.
    Requires:
        Independent samples in [a, b].
    Source:
        W. Hoeffding, JASA 58 (1963), Theorem 2; Kumar et al. 2020, section 5.2.
    """

    name = "hoeffding"

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:
        """The lower bound, never below a."""
        a, b = samples.support
        width = math.sqrt(math.log(1 / per_side(alpha, sides)) / (2 * samples.n)) + SLACK
        return max(a, samples.mean - (b - a) * width)
