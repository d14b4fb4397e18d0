"""What training minimises: the seam between the loop and the ideas."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from holdfast.validation import check_count

Predict = Callable[[Tensor], Tensor]
"""Noisy images, copy after copy, to logits (copies, images, classes)."""


@dataclass(frozen=True)
class Objective(ABC):
    """A loss of the noisy copies of a batch of images.

    Attributes:
        copies: noisy copies of each image in a step.
    """

    copies: int = 1

    def __post_init__(self) -> None:
        check_count("copies", self.copies)

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor, sigma: float) -> Tensor:
        """Of logits (copies, images, classes) in float32, under noise of this sigma; its average over the images."""

    def perturbed(self, predict: Predict, images: Tensor, noise: Tensor, labels: Tensor) -> Tensor:  # noqa: ARG002
        """The images to learn from, given the noise (copies, images, ...) that will be added; as they are, unless attacked."""
        return images
