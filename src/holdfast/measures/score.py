"""The first confidence measure: the prediction score of the class."""

from typing import TYPE_CHECKING

from holdfast.measures.measure import SUM_TOLERANCE, Measure, MeasureInfo

if TYPE_CHECKING:
    from torch import Tensor


class PredictionScore(Measure):
    """``h_i``: the class's own softmax score, in (0, 1).

    An average above 1/2 makes the class the prediction, since no other average can be as large. Probabilities sum to one
    up to :data:`SUM_TOLERANCE`, half of which ``winning`` allows for.

    Source:
        Kumar et al. 2020, section 4.
    """

    name = "score"
    title = "score"
    support = (0.0, 1.0)
    winning = (1 + SUM_TOLERANCE) / 2
    thresholds = (0.5, 0.7, 0.9)

    def __call__(self, probabilities: "Tensor", target: "Tensor") -> "Tensor":
        """The target's column."""
        return probabilities.gather(1, target[:, None])[:, 0]


def sum_tolerance(score: MeasureInfo) -> float:
    """How far the probabilities of copies may be from summing to one, where the score is described like this."""
    return 1.0 if score.winning is None else 2 * score.winning - 1
