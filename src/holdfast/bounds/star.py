"""The mean bound of STaR bets."""

from dataclasses import dataclass

from holdfast.bounds.tangent import aimed_bound
from holdfast.errors import InvalidArgument
from holdfast.means import MeanBound, View
from holdfast.means.star import block_sizes
from holdfast.noise import Gaussian
from holdfast.scores import Exceedances, Scores
from holdfast.validation import Sides, per_side


@dataclass(frozen=True)
class Star(MeanBound):
    """The mean bound of a gambler who knows how many samples are to come.

    Guarantee:
        At most ``E X`` with probability at least ``1 - alpha``, for the number of samples that was planned (no optional stopping).
    Requires:
        Independent samples in [a, b], in arrival order (:class:`~holdfast.ScoreSamples`).
    Source:
        See :class:`~holdfast.means.star.StarGame`. ``T(0)`` is the mean, so this is a tangent certificate at radius 0.
    """

    name = "star"
    needs_order = True

    def lower(self, samples: Exceedances, alpha: float, sides: Sides = "lower") -> float:  # noqa: ARG002
        """Counts have forgotten the order."""
        raise InvalidArgument(
            "Star bets on samples in the order of their arrival; use Naive(mean=Star()) on ScoreSamples"
        )

    def lower_of(self, scores: Scores, view: View, alpha: float, sides: Sides = "lower") -> float:
        """The largest mean that the gambler refutes."""
        a, _ = support = scores.support
        if scores.n < 2:
            return a
        blocks = [view(block) for block in scores.blocks(block_sizes(scores.n))]
        return aimed_bound(blocks, support, Gaussian(1.0), 0.0, per_side(alpha, sides))
