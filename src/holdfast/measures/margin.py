"""The second confidence measure: the margin over the best other class."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.measures.measure import Measure, MeasureInfo

if TYPE_CHECKING:
    from torch import Tensor


class Margin(Measure):
    """``h_i - max_{j != i} h_j``, in (-1, 1). An average above 0 makes the class the prediction.

    Source:
        Kumar et al. 2020, section 4: the average margin is at most the gap of the averages.
    """

    name = "margin"
    title = "margin"
    support = (-1.0, 1.0)
    winning = 0.0
    thresholds = (0.0, 0.3, 0.6)

    def __call__(self, probabilities: "Tensor", target: "Tensor") -> "Tensor":
        """The target's column less the largest of the others."""
        own = probabilities.gather(1, target[:, None])
        others = probabilities.scatter(1, target[:, None], -1.0).amax(1)
        return own[:, 0] - others


def votes_within(
    measure: MeasureInfo, lowest: NDArray[np.float64], highest: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[int, int] | None:
    """How few and how many votes the class can have had, by counts of a measure between these values; None if it does not say.

    A copy with a positive margin votes for the class, and one with a negative margin does not.
    """
    if measure.name != Margin.name:
        return None
    return int(counts[lowest > 0].sum()), int(counts[highest >= 0].sum())
