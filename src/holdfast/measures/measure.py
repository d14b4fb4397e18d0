"""What a confidence measure is: from class probabilities at a noisy copy to one number in a known range."""

from abc import ABC, abstractmethod

from torch import Tensor


class Measure(ABC):
    """Turns probabilities (n, classes) and target classes (n,) into scores (n,) within ``support``."""

    name: str
    support: tuple[float, float]

    @abstractmethod
    def __call__(self, probabilities: Tensor, targets: Tensor) -> Tensor:
        """One score per row."""
