"""A classifier whose certificates are known in closed form: for tests, for examples, and to check a set-up."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from torch import Tensor, nn


class ProbitModel(nn.Module):
    """Two classes with probabilities ``Phi(w.x + b)`` and ``1 - Phi(w.x + b)``; use it with ``outputs="probabilities"``.

    Under Gaussian noise the average score of class 0 at distance R is at least
    ``Phi((w.x + b - R |w|) / sqrt(1 + sigma^2 |w|^2))``, and the attack ``-R w / |w|`` reaches it: Theorem 2 is tight.
    """

    def __init__(self, weights: ArrayLike | Sequence[float], bias: float = 0.0) -> None:
        super().__init__()
        self.weights = nn.Parameter(
            torch.tensor(np.asarray(weights), dtype=torch.float64).flatten(), requires_grad=False
        )
        self.bias = float(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities of both classes."""
        first = torch.special.ndtr(x.flatten(1).double() @ self.weights + self.bias)
        return torch.stack((first, 1 - first), dim=1)

    def worst_case(self, x: ArrayLike, sigma: float, radius: ArrayLike) -> NDArray[np.float64]:
        """The exact smallest average score of class 0 within each radius of x."""
        w = self.weights.numpy()
        norm = float(np.linalg.norm(w))
        here = float(np.asarray(x, dtype=np.float64).ravel() @ w) + self.bias
        return np.asarray(ndtr((here - np.asarray(radius) * norm) / math.hypot(1.0, sigma * norm)), dtype=np.float64)

    def attack(self, x: ArrayLike, radius: float) -> NDArray[np.float64]:
        """The point at distance ``radius`` where that average is attained."""
        start = np.asarray(x, dtype=np.float64)
        w = self.weights.numpy()
        away: NDArray[np.float64] = (w / np.linalg.norm(w)).reshape(start.shape)
        return start - radius * away
