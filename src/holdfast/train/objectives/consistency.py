"""Cross-entropy, the disagreement of an image's copies, and the entropy of their average."""

import math
from dataclasses import dataclass

from torch import Tensor

from holdfast.errors import InvalidArgument
from holdfast.train.objectives.objective import Objective
from holdfast.train.objectives.plain import cross_entropy
from holdfast.validation import check_number


@dataclass(frozen=True)
class Consistency(Objective):
    """Copies of one image shall agree.

    Source:
        Jeong & Shin 2020, "Consistency Regularization for Certified Robustness of Smoothed Classifiers", equation 8.

    Attributes:
        consistency: weight of the divergence of each copy's prediction from the average of an image's copies.
        sharpness: weight of the entropy of that average; more makes scores more decided.
    """

    copies: int = 2
    consistency: float = 20.0
    sharpness: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("consistency", self.consistency, at_least=0)
        check_number("sharpness", self.sharpness, at_least=0)
        if self.consistency > 0 and self.copies < 2:
            raise InvalidArgument("consistency compares noisy copies of one image: it needs two copies or more, got 1")

    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:  # noqa: ARG002
        """Cross-entropy and the two weighted terms."""
        logs = logits.log_softmax(2)
        average = logs.logsumexp(0) - math.log(len(logs))
        weights = average.exp()
        divergence = (weights * (average - logs)).sum(2).mean()
        entropy = -(weights * average).sum(1).mean()
        return cross_entropy(logits, labels) + self.consistency * divergence + self.sharpness * entropy
