"""Uniform noise: certificates against perturbations that are small in l1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.noise.noise import Noise
from holdfast.validation import check_scale


@dataclass(frozen=True)
class Uniform(Noise):
    """Each coordinate independent and uniform on [-half_width, half_width]; radii are in l1.

    The boxes around x and x' share at least a part ``prod(1 - |d_j| / 2h) >= 1 - R / 2h`` of their volume, so an event of
    probability p keeps at least ``g_R(p) = max(0, p - R / 2h)``; a shift along one axis and an event outside the other box
    reach it. It is convex and increasing in p.

    Source:
        G. Yang, T. Duan, J. E. Hu, H. Salman, I. Razenshteyn, J. Li, "Randomized Smoothing of All Shapes and Sizes",
        ICML 2020 (uniform noise, l1).
    """

    half_width: float
    kind = "uniform"
    norm = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", check_scale("half_width", self.half_width))

    @property
    def scale(self) -> float:
        """Half the width of the box."""
        return self.half_width

    @property
    def title(self) -> str:
        """``uniform noise, half-width 0.5``."""
        return f"uniform noise, half-width {self.half_width!r}".removesuffix(".0")

    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """``max(0, p - R / 2h)``."""
        return np.maximum(0.0, np.subtract(p, np.divide(radius, 2 * self.half_width)))

    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """One where anything is left, else zero."""
        return np.asarray(np.greater(p, np.divide(radius, 2 * self.half_width)), dtype=np.float64)

    def radius(self, p: float, q: float) -> float:
        """``2h (p - q)``."""
        return max(0.0, 2 * self.half_width * (p - q))

    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """The share of the interval that lies in the box."""
        inside = np.minimum(width, self.half_width + width / 2 - np.abs(middle))
        return np.asarray(np.clip(inside, 0.0, 2 * self.half_width) / (2 * self.half_width), dtype=np.float64)

    def standard(self, generator: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
        """On [-1, 1), in steps of 2^-23."""
        return generator.random(tuple(shape), dtype=np.float32) * np.float32(2) - np.float32(1)
