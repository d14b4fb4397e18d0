"""A toy noise, a toy model and a toy measure: what a contributor would write, and nothing else anywhere."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

import holdfast as hf


@dataclass(frozen=True)
class TotalVariation(hf.Noise):
    """Gaussian noise, of which only the total variation distance is used: ``g_R(p) = max(0, p - TV(R))``.

    Any event loses at most the total variation between the noise around x and around x', which for Gaussian noise at
    distance R is ``2 Phi(R / 2 sigma) - 1``. Valid, convex and increasing in p, and looser than Neyman and Pearson's.
    """

    width: float
    kind = "test-total-variation"
    norm = "l2"

    @property
    def scale(self) -> float:
        return self.width

    @property
    def title(self) -> str:
        return f"total variation of width {self.width:g}"

    def _lost(self, radius: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(2 * ndtr(np.divide(radius, 2 * self.width)) - 1, dtype=np.float64)

    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        return np.maximum(0.0, np.subtract(p, self._lost(radius)))

    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.greater(p, self._lost(radius)), dtype=np.float64)

    def radius(self, p: float, q: float) -> float:
        return 2 * self.width * float(ndtri((1 + p - q) / 2)) if p > q else 0.0

    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        return hf.Gaussian(self.width).probability(middle, width)


class NearestPrototype(hf.Model):
    """Probabilities that fall with the squared distance to each class's prototype; NumPy, no torch module."""

    name = "NearestPrototype"
    device = torch.device("cpu")

    def __init__(self, prototypes: NDArray[np.float32]) -> None:
        self._prototypes = prototypes.reshape(len(prototypes), -1)

    def probabilities(self, batch: Tensor) -> Tensor:
        rows = batch.flatten(1).numpy()
        distances = ((rows[:, None, :] - self._prototypes[None]) ** 2).sum(2)
        weights = np.exp(distances.min(1, keepdims=True) - distances)
        return torch.from_numpy(weights / weights.sum(1, keepdims=True))

    def replicate(self, device: torch.device) -> "NearestPrototype":  # noqa: ARG002
        return NearestPrototype(self._prototypes.copy())

    def fingerprint(self) -> str:
        return hashlib.sha256(self._prototypes.tobytes()).hexdigest()


class Agreement(hf.Measure):
    """The probability that two draws from the class probabilities agree: how concentrated the answer is."""

    name = "agreement"
    title = "agreement of two draws"
    support = (0.0, 1.0)
    thresholds = (0.5, 0.8)

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        return probabilities.square().sum(1)
