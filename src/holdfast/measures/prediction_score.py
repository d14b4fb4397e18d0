"""The first confidence measure: the prediction score of the class."""

from torch import Tensor

from holdfast.measures.measure import Measure


class PredictionScore(Measure):
    """``h_i``: the class's own softmax score, in (0, 1). An average above 1/2 makes the class the prediction.

    Source:
        Kumar et al. 2020, section 4.
    """

    name = "score"
    support = (0.0, 1.0)

    def __call__(self, probabilities: Tensor, targets: Tensor) -> Tensor:
        """The target's column."""
        return probabilities.gather(1, targets[:, None])[:, 0]
