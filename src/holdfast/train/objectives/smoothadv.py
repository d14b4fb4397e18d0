"""Cross-entropy at attacked images."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from holdfast.train.objectives.objective import Objective, Predict
from holdfast.train.objectives.plain import cross_entropy
from holdfast.validation import check_count, check_number


@dataclass(frozen=True)
class SmoothAdv(Objective):
    """Images are moved, within ``radius``, to where the average prediction of their copies is worst.

    Source:
        Salman et al. 2019, "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers", algorithm 1.

    Attributes:
        steps: of projected gradient ascent, each of ``2 radius / steps``; the noise is the same in all of them.
    """

    copies: int = 2
    radius: float = 0.25
    steps: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("radius", self.radius, at_least=0)
        check_count("steps", self.steps)

    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:  # noqa: ARG002
        """Average cross-entropy of all copies."""
        return cross_entropy(logits, labels)

    def perturbed(self, predict: Predict, images: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
        """Where the cross-entropy of the average prediction was driven up."""
        moved = torch.zeros_like(images)
        for _ in range(self.steps):
            moved.requires_grad_(True)
            average = predict((images + moved + noise).flatten(0, 1)).log_softmax(2).logsumexp(0)
            (uphill,) = torch.autograd.grad(functional.nll_loss(average, labels, reduction="sum"), moved)
            with torch.no_grad():
                moved = moved + 2 * self.radius / self.steps * uphill / _length(uphill)
                moved = moved * (self.radius / _length(moved)).clamp(max=1)
        return (images + moved).detach()


def _length(images: Tensor) -> Tensor:
    """The l2 norm of each image, shape (images, 1, 1, 1)."""
    length: Tensor = torch.linalg.vector_norm(images, dim=(1, 2, 3), keepdim=True)
    return length.clamp(min=1e-12)
