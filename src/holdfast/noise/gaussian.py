"""Gaussian noise: the papers' own."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from holdfast.errors import InvalidArgument
from holdfast.noise.noise import Noise
from holdfast.validation import check_sigma

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NARROW = 0.5
"""In units of sigma: the rule is exact to the last digit up to there."""


@dataclass(frozen=True)
class Gaussian(Noise):
    """Isotropic Gaussian noise of standard deviation ``sigma`` in the units of the input; radii are in l2.

    Among all events of probability p around x, the half-space that the perturbation moves away from loses most. Around
    x', at distance R, it has probability ``g_R(p) = Phi(Phi^-1(p) - r)`` with ``r = R / sigma``, which is convex in p.

    Source:
        Kumar et al. 2020, Lemma 2 (Neyman & Pearson 1933), first statement. The greatest is ``1 - g_R(1 - p)``.
    """

    sigma: float
    kind = "gaussian"
    norm = "l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

    @property
    def scale(self) -> float:
        """Its standard deviation."""
        return self.sigma

    @property
    def title(self) -> str:
        """``sigma = 0.25``."""
        return f"sigma = {self.sigma!r}".removesuffix(".0")

    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """``Phi(Phi^-1(p) - r)``."""
        return np.asarray(ndtr(ndtri(p) - np.divide(radius, self.sigma)), dtype=np.float64)

    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """``exp(r z - r^2 / 2)`` with ``z = Phi^-1(p)``; one everywhere at r = 0."""
        r = np.divide(radius, self.sigma)
        z = np.where(r > 0, ndtri(p), 0.0)
        return np.asarray(np.exp(r * z - r**2 / 2), dtype=np.float64)

    def radius(self, p: float, q: float) -> float:
        """``sigma (Phi^-1(p) - Phi^-1(q))``."""
        return max(0.0, self.sigma * float(ndtri(p) - ndtri(q)))

    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """Gauss and Legendre's rule over a narrow interval: a sum of positive terms keeps the digits that a difference loses."""
        z, half = np.abs(middle) / self.sigma, width / (2 * self.sigma)
        if half > _NARROW:
            return np.asarray(ndtr(half - z) - ndtr(-half - z), dtype=np.float64)
        density = np.exp(-np.square(z[..., None] + half * _NODES) / 2) / math.sqrt(2 * math.pi)
        return np.asarray(half * (density @ _WEIGHTS), dtype=np.float64)

    def standard(self, generator: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
        """NumPy's ziggurat."""
        return generator.standard_normal(tuple(shape), dtype=np.float32)

    def decay(self, p: NDArray[np.float64]) -> Callable[[float], NDArray[np.float64]]:
        """The quantiles are computed once."""
        return partial(_shifted, np.asarray(ndtri(p), dtype=np.float64), self.sigma)


def _shifted(z: NDArray[np.float64], sigma: float, radius: float) -> NDArray[np.float64]:
    return np.asarray(ndtr(z - radius / sigma), dtype=np.float64)


def as_noise(noise: Noise | None, sigma: float | None) -> Noise:
    """The noise that was meant: ``sigma=s`` is the short form of ``noise=Gaussian(s)``."""
    if (noise is None) == (sigma is None):
        raise InvalidArgument(
            f"sigma must be a positive number, such as sigma=0.25 for Gaussian noise, or another noise be given, such as "
            f"noise=Uniform(0.5), and not both; got {'neither' if noise is None else 'both'}"
        )
    if sigma is not None:
        return Gaussian(sigma)
    if not isinstance(noise, Noise):
        raise InvalidArgument(f"noise must be one such as Gaussian(0.25) or Uniform(0.5), got {noise!r}")
    return noise


def sigma_of(noise: Noise) -> float:
    """The standard deviation of Gaussian noise."""
    if not isinstance(noise, Gaussian):
        raise InvalidArgument(f"{noise!r} has no sigma; its unit of length is noise.scale")
    return noise.sigma


def noise_fields(noise: Noise) -> dict[str, Any]:
    """How a noise is stored among other values: ``noise``, and ``sigma`` for readers of 0.1.0, which knew no other."""
    return {"noise": noise.to_dict(), **({"sigma": noise.sigma} if isinstance(noise, Gaussian) else {})}


def stored_noise(d: Mapping[str, Any]) -> Noise:
    """The inverse of :func:`noise_fields`; what 0.1.0 wrote has a ``sigma`` only."""
    if "noise" not in d:
        return Gaussian(d["sigma"])
    noise = Noise.from_dict(d["noise"])
    if "sigma" in d and noise != Gaussian(d["sigma"]):
        raise InvalidArgument(f"noise and sigma must agree, got {noise} and sigma = {d['sigma']!r}")
    return noise
