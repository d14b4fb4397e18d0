"""A proper score of the confidence that would be certified at a radius."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import InvalidArgument
from holdfast.noise import Gaussian
from holdfast.train.objectives.objective import Objective
from holdfast.validation import check_number

SCORES = ("brier", "log")


@dataclass(frozen=True)
class Certified(Objective):
    """Theorem 2's bounds at ``radius``, from the sorted scores of an image's copies, in a proper score.

    The lower bound is a weighted mean of the sorted scores in which the smallest weigh most, so the network learns from its
    worst copies. It is differentiable wherever no two scores are equal. The upper bound has the same weights in reverse. At
    radius 0 both are the average, and the loss is the Brier (or log) score of the smoothed classifier's prediction. Being
    wrong with more confidence costs more, so scores are not pushed to 0 and 1 as far as certified accuracy would.

    Requires:
        Nothing: it is a loss, no certificate. The bounds of a few copies are too optimistic, because g_R is convex, and
        tend to those of infinitely many samples with more copies.
    Source:
        Kumar et al. 2020, theorem 2, at the empirical distribution of the copies.

    Attributes:
        score: "brier", of the true class's lower bound and the others' upper bounds; or "log", of the former alone.
    """

    copies: int = 4
    radius: float = 0.5
    score: str = "brier"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("radius", self.radius, at_least=0)
        if self.score not in SCORES:
            raise InvalidArgument(f"score must be one of {', '.join(SCORES)}, got {self.score!r}")
        if self.copies < 2:
            raise InvalidArgument(
                f"the bound sorts an image's noisy copies: it needs two copies or more, got {self.copies}"
            )

    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:
        """The proper score of the bounds."""
        weights = _weights_on(logits.device, logits.dtype, self.copies, self.radius / sigma)
        if self.score == "log":
            own = logits.log_softmax(2).gather(2, labels.expand(self.copies, -1)[..., None])[..., 0]
            return -(own.sort(0, descending=True).values + weights.log()[:, None]).logsumexp(0).mean()
        ordered = logits.softmax(2).sort(0, descending=True).values
        lower = torch.einsum("c,cik->ik", weights, ordered)
        upper = torch.einsum("c,cik->ik", weights.flip(0), ordered)
        true = torch.zeros_like(upper).scatter_(1, labels[:, None], 1.0)
        return torch.where(true > 0, 1 - lower, upper).square().sum(1).mean()


@cache
def _weights_on(device: torch.device, dtype: torch.dtype, copies: int, ratio: float) -> Tensor:
    """Sent to the device once: a recorded step cannot send them."""
    return torch.from_numpy(bound_weights(copies, ratio)).to(device, dtype)


def bound_weights(copies: int, ratio: float) -> NDArray[np.float64]:
    """What the sorted scores, the largest first, weigh in Theorem 2's lower bound at a radius of ``ratio`` sigma.

    The share of copies with at least the j-th largest score is ``j / copies``. By Abel's summation the j-th largest weighs
    ``g_R(j / copies) - g_R((j - 1) / copies)``, which grows with j because g_R is convex.
    """
    share = np.arange(copies + 1) / copies
    return np.diff(Gaussian(1.0).least_probability(share, ratio))
