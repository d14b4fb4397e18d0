"""What samples know of a noise: they were drawn at a point of the grid near the input, and with a small error."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.noise.noise import Noise

MOST_NUMBERS = 2**20
"""Of one input: each is drawn with an error of at most 2^-48 in total variation (:mod:`holdfast.noise.rounded`)."""
DRAWING_ERROR = 2.0**-28
"""How far the copies of one input may be from the noise's law, in total variation."""


@dataclass(frozen=True)
class SampledNoise(Noise):
    """A noise as seen from an input that is ``shift`` away from the point that was sampled.

    An event that has probability p among the copies has at least ``p - 2^-28`` under the noise itself, around that point,
    and so at least ``g_(R + shift)(p - 2^-28)`` around every point within R of the input.

    Requires:
        At most ``MOST_NUMBERS`` numbers in an input.
    """

    noise: Noise
    shift: float
    kind = ""
    norm = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", self.noise.norm)

    @property
    def scale(self) -> float:
        """The noise's."""
        return self.noise.scale

    @property
    def title(self) -> str:
        """The noise's."""
        return self.noise.title

    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """``g_(R + shift)(p - 2^-28)``."""
        return self.noise.least_probability(_lowered(p), np.add(radius, self.shift))

    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """That of the curve above; zero where it is flat."""
        steep = self.noise.slope(_lowered(p), np.add(radius, self.shift))
        return np.where(np.greater(p, DRAWING_ERROR), steep, 0.0)

    def radius(self, p: float, q: float) -> float:
        """The noise's, less the shift."""
        return max(0.0, float(np.nextafter(self.noise.radius(float(_lowered(p)), q) - self.shift, -np.inf)))

    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """The noise's."""
        return self.noise.probability(middle, width)

    def decay(self, p: NDArray[np.float64]) -> Callable[[float], NDArray[np.float64]]:
        """The noise's, at larger radii."""
        return _Decay(self.noise.decay(_lowered(p)), self.shift)


@dataclass(frozen=True, eq=False)
class _Decay:
    inner: Callable[[float], NDArray[np.float64]]
    shift: float

    def __call__(self, radius: float) -> NDArray[np.float64]:
        return self.inner(radius + self.shift)


def sampled_noise(noise: Noise, step: float, shift: float) -> Noise:
    """What samples on a grid know of a noise; of float32 noise, the noise itself is believed to be known."""
    return SampledNoise(noise, shift) if step or shift else noise


def plain_noise(noise: Noise) -> Noise:
    """The noise that was sampled."""
    return noise.noise if isinstance(noise, SampledNoise) else noise


def _lowered(p: ArrayLike) -> NDArray[np.float64]:
    return np.maximum(0.0, np.subtract(p, DRAWING_ERROR))
