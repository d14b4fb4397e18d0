"""The second confidence measure: the margin over the best other class."""

from torch import Tensor

from holdfast.measures.measure import Measure


class Margin(Measure):
    """``h_i - max_{j != i} h_j``, in (-1, 1). An average above 0 makes the class the prediction.

    Source:
        Kumar et al. 2020, section 4: the average margin is at most the gap of the averages.
    """

    name = "margin"
    support = (-1.0, 1.0)

    def __call__(self, probabilities: Tensor, targets: Tensor) -> Tensor:
        """The target's column less the largest of the others."""
        own = probabilities.gather(1, targets[:, None])
        others = probabilities.scatter(1, targets[:, None], -1.0).amax(1)
        return own[:, 0] - others
