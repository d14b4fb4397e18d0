"""The sample mean itself: the best any mean bound could do."""

from dataclasses import dataclass

from holdfast.means.mean import MeanBound
from holdfast.scores import Exceedances
from holdfast.validation import Sides


@dataclass(frozen=True)
class EmpiricalMean(MeanBound):
    """The sample mean, taken as if it were exact. **Not a certificate.**

    The "best possible baseline" of the paper's appendix: no valid lower bound on the mean is above it in the long run,
    so no naive certificate beats the curve it draws.
    """

    guaranteed = False
    name = "empirical-mean"

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:  # noqa: ARG002
        """The sample mean: alpha plays no role."""
        return samples.mean
