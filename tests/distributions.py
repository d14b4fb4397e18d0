"""Score distributions whose worst case under a perturbation is known exactly, and every noise."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from holdfast.noise import Gaussian, Noise
from holdfast.noise import Uniform as UniformNoise
from toys import TotalVariation

Floats = NDArray[np.float64]
NOISES: dict[str, Noise] = {
    "gaussian": Gaussian(0.5),
    "uniform": UniformNoise(0.5),
    "toy": TotalVariation(0.5),
}
"""A new noise joins this list and runs every law and every guarantee."""


class Distribution(ABC):
    """A score in [0, 1]; ``lowest(r)`` is the least average score at distance r sigma, ``highest(r)`` the greatest.

    They are closed forms for Gaussian noise. For any noise, ``worst`` and ``best`` integrate Theorem 2 numerically.
    """

    atoms: tuple[float, ...] = ()

    @abstractmethod
    def survival(self, s: Floats) -> Floats:
        """P(X >= s), away from the atoms."""

    def worst(self, noise: Noise, radii: Floats) -> Floats:
        s, widths = self._nodes()
        p = self.survival(s)
        return np.array([float(np.dot(widths, noise.least_probability(p, radius))) for radius in radii])

    def best(self, noise: Noise, radii: Floats) -> Floats:
        s, widths = self._nodes()
        p = 1 - self.survival(s)
        return np.array([1 - float(np.dot(widths, noise.least_probability(p, radius))) for radius in radii])

    def _nodes(self) -> tuple[Floats, Floats]:
        """Five Gauss-Legendre nodes in each of 2,000 intervals, dense at both ends and cut at the atoms."""
        edges = np.union1d(np.sin(np.linspace(0.0, np.pi / 2, 2_001)) ** 4, self.atoms)
        edges = np.union1d(edges, 1 - edges)
        nodes, weights = np.polynomial.legendre.leggauss(5)
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats: ...

    @abstractmethod
    def lowest(self, r: Floats) -> Floats: ...

    @abstractmethod
    def highest(self, r: Floats) -> Floats: ...


@dataclass(frozen=True)
class Probit(Distribution):
    """Phi(Z) with Z normal: continuous, and the score of a linear model."""

    mean: float
    sd: float

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return np.asarray(ndtr(rng.normal(self.mean, self.sd, size)))

    def survival(self, s: Floats) -> Floats:
        return np.asarray(ndtr((self.mean - ndtri(s)) / self.sd))

    def lowest(self, r: Floats) -> Floats:
        return np.asarray(ndtr((self.mean - r * self.sd) / np.hypot(1, self.sd)))

    def highest(self, r: Floats) -> Floats:
        return np.asarray(ndtr((self.mean + r * self.sd) / np.hypot(1, self.sd)))


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on [0, 1]."""

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.random(size)

    def survival(self, s: Floats) -> Floats:
        return 1 - s

    def lowest(self, r: Floats) -> Floats:
        return np.asarray(ndtr(-r / np.sqrt(2)))

    def highest(self, r: Floats) -> Floats:
        return np.asarray(ndtr(r / np.sqrt(2)))


@dataclass(frozen=True)
class Discrete(Distribution):
    """Finitely many values: atoms, ties, two points or a constant."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.choice(np.array(self.values), p=np.array(self.weights), size=size)

    @property
    def atoms(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.values

    def survival(self, s: Floats) -> Floats:
        above = np.append(np.cumsum(np.array(self.weights)[::-1])[::-1], 0.0)
        above[0] = 1.0
        return np.asarray(np.minimum(1.0, above[np.searchsorted(self.values, s)]))

    def lowest(self, r: Floats) -> Floats:
        return self._moved(r)

    def highest(self, r: Floats) -> Floats:
        return self._moved(-r)

    def _moved(self, r: Floats) -> Floats:
        v = np.array(self.values)
        survival = np.minimum(1.0, np.cumsum(np.array(self.weights)[::-1])[::-1])
        survival[0] = 1.0
        widths = np.diff(v, prepend=0.0)
        return np.array([float(np.dot(widths, ndtr(ndtri(survival) - each))) for each in r])


@dataclass(frozen=True)
class HalfAtom(Distribution):
    """Uniform on [0, 1] with probability 1 - weight, an atom at 1 otherwise: what a saturated softmax does."""

    weight: float

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return np.where(rng.random(size) < self.weight, 1.0, rng.random(size))

    def survival(self, s: Floats) -> Floats:
        return 1 - (1 - self.weight) * s

    def lowest(self, r: Floats) -> Floats:
        return self._moved(r)

    def highest(self, r: Floats) -> Floats:
        return self._moved(-r)

    def _moved(self, r: Floats) -> Floats:
        # p(s) = 1 - (1 - w) s, uniform in (w, 1): the integral of Phi(Phi^-1(p) - r) over s by Gauss-Legendre in p.
        nodes, weights = np.polynomial.legendre.leggauss(400)
        p = self.weight + (1 - self.weight) * (nodes + 1) / 2
        return np.array([float(np.dot(weights / 2, ndtr(ndtri(p) - each))) for each in r])


DISTRIBUTIONS: dict[str, Distribution] = {
    "continuous": Probit(1.0, 0.8),
    "confident": Probit(3.0, 1.0),
    "uniform": Uniform(),
    "atoms": Discrete((0.1, 0.35, 0.5, 0.9), (0.1, 0.2, 0.3, 0.4)),
    "two points": Discrete((0.2, 0.9), (0.15, 0.85)),
    "zero or one": Discrete((0.0, 1.0), (0.3, 0.7)),
    "rare fall": Discrete((0.0, 1.0), (0.01, 0.99)),
    "constant": Discrete((0.6,), (1.0,)),
    "saturated": HalfAtom(0.5),
}


def source(values: Floats) -> Callable[[int], Floats]:
    """A stream of prepared scores."""
    position = 0

    def draw(n: int) -> Floats:
        nonlocal position
        position += n
        assert position <= len(values), "drew more than n_max"
        return values[position - n : position]

    return draw
