"""Cross-entropy on noisy copies."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from holdfast.train.objectives.objective import Objective


@dataclass(frozen=True)
class Plain(Objective):
    """Gaussian data augmentation, and nothing else: how the paper's networks were trained.

    Source:
        Cohen, Rosenfeld, Kolter 2019, section 3.3; Lecuyer et al. 2019.
    """

    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:  # noqa: ARG002
        """Average cross-entropy of all copies."""
        return cross_entropy(logits, labels)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Average over copies and images."""
    return functional.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)))
