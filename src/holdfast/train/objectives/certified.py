"""A proper score of the confidence that would be certified at a radius."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.errors import InvalidArgument
from holdfast.noise import Gaussian
from holdfast.train.objectives.objective import Objective
from holdfast.validation import check_number

SCORES = ("log", "brier")
LAWS = ("empirical", "normal")
_LEAST_VARIANCE = 1e-6
_SUREST = -1e-6
"""Of log-probabilities: closer to 0, float32 cannot tell one from another."""


@dataclass(frozen=True)
class Certified(Objective):
    """Theorem 2's bounds at ``radius``, from the scores of an image's copies, in a proper score.

    Being wrong with more confidence costs more, so scores are not pushed to 0 and 1 as far as certified accuracy would. The
    bounds rest on the distribution of the scores at the image, which some copies only hint at:

    - law "empirical": the copies are all there is. The bound is a weighted mean of the sorted scores in which the smallest
      weigh most, so the network learns from its worst copies. At radius 0 it is the average.
    - law "normal": the log-odds of a class are normal, with the mean m and the standard deviation s of the copies. At distance R
      the worst case is then normal, too, with mean ``m - s R / sigma``. The network learns to be sure, and equally sure of all
      copies: a few of them say something of the tail that decides about large radii. It is then too modest at the image, which a
      temperature mends.

    Requires:
        Nothing: it is a loss, no certificate. The empirical bounds of a few copies are too optimistic, because g_R is convex.
    Source:
        Kumar et al. 2020, theorem 2. The average of a logistic function over a normal law: MacKay 1992, "The Evidence
        Framework Applied to Classification Networks".

    Attributes:
        score: "log", of the true class's lower bound alone; or "brier", of it and the others' upper bounds.
    """

    copies: int = 4
    radius: float = 0.5
    score: str = "log"
    law: str = "empirical"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("radius", self.radius, at_least=0)
        for name, value, known in (("score", self.score, SCORES), ("law", self.law, LAWS)):
            if value not in known:
                raise InvalidArgument(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if self.copies < 2:
            raise InvalidArgument(
                f"the bound compares an image's noisy copies: it needs two copies or more, got {self.copies}"
            )

    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:
        """The proper score of the bounds."""
        logs = logits.log_softmax(2)
        if self.score == "log":
            logs = logs.gather(2, labels.expand(self.copies, -1)[..., None])
        bounds = self._normal if self.law == "normal" else self._empirical
        lower, upper = bounds(logs, self.radius / sigma)
        if self.score == "log":
            return -lower.mean()
        true = torch.zeros_like(upper).scatter_(1, labels[:, None], 1.0)
        return torch.where(true > 0, 1 - lower.exp(), upper.exp()).square().sum(1).mean()

    def _normal(self, logs: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
        """Logarithms of the lower and upper bounds, shape (images, classes)."""
        odds = logs - (-logs.clamp(max=_SUREST).expm1()).log()
        variance = odds.var(0) + _LEAST_VARIANCE
        mean, moved, flatter = odds.mean(0), ratio * variance.sqrt(), (1 + math.pi / 8 * variance).sqrt()
        return logsigmoid((mean - moved) / flatter), logsigmoid((mean + moved) / flatter)

    def _empirical(self, logs: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
        ordered = logs.sort(0, descending=True).values
        weights = _weights_on(logs.device, logs.dtype, self.copies, ratio).log()[:, None, None]
        return (ordered + weights).logsumexp(0), (ordered + weights.flip(0)).logsumexp(0)


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
