"""Scores in the order of their arrival."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidInput
from holdfast.noise import Noise, as_noise
from holdfast.scores.exceedances import Exceedances, Scores
from holdfast.scores.grid import DEFAULT_BINS, Grid
from holdfast.scores.histogram import ScoreHistogram
from holdfast.validation import check_count, check_numbers, check_support


@dataclass(frozen=True, eq=False, init=False)
class ScoreSamples(Scores):
    """Score values in arrival order.

    Parameters:
        values: one number per noisy copy, all within ``support``.
        support: the range (a, b) the score can take: (0, 1) for a prediction score, (-1, 1) for a margin.
        noise: what the copies were made with.
        sigma: the short form of ``noise=Gaussian(sigma)``.
    """

    values: NDArray[np.float64]
    support: tuple[float, float]
    noise: Noise

    def __init__(
        self,
        values: ArrayLike,
        *,
        support: Sequence[float] = (0.0, 1.0),
        sigma: float | None = None,
        noise: Noise | None = None,
    ) -> None:
        object.__setattr__(self, "support", check_support(support))
        object.__setattr__(self, "noise", as_noise(noise, sigma))
        object.__setattr__(self, "values", _checked(values, self.support))

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.values.size)

    def survival_lower(self) -> Exceedances:
        """Every order statistic is a threshold; equal ones share the width of their first."""
        return Exceedances(np.sort(self.values), np.arange(self.n, 0, -1, dtype=np.int64), self.n, self.support)

    def survival_upper(self) -> Exceedances:
        """The same for the reflected scores."""
        return self.reflect().survival_lower()

    def blocks(self, sizes: Sequence[int]) -> list[Scores]:
        """The samples in blocks, in the order of their arrival."""
        ends = np.cumsum(sizes)[:-1]
        return [ScoreSamples(part, support=self.support, noise=self.noise) for part in np.split(self.values, ends)]

    def reflect(self) -> "ScoreSamples":
        """The scores ``a + b - X``: their lower bounds are this one's upper bounds, mirrored."""
        a, b = self.support
        return ScoreSamples(np.clip((a + b) - self.values, a, b), support=self.support, noise=self.noise)

    def histogram(self, bins: int = DEFAULT_BINS) -> "ScoreHistogram":
        """Count the samples on the fixed grid."""
        grid = Grid(self.support, check_count("bins", bins, at_least=2))
        counts = np.bincount(grid.locate(self.values), minlength=grid.size)
        return ScoreHistogram(counts, support=self.support, noise=self.noise)


def _checked(given: ArrayLike, support: tuple[float, float]) -> NDArray[np.float64]:
    """A copy that cannot be written to, of scores that are all there and all within the support."""
    values = np.array(check_numbers("scores", given, InvalidInput), copy=True)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput(f"scores must be a non-empty one-dimensional array, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidInput(f"scores must be finite, got {_first(values, ~np.isfinite(values))}")
    outside = (values < support[0]) | (values > support[1])
    if outside.any():
        raise InvalidInput(
            f"scores must lie in their support [{support[0]:g}, {support[1]:g}], got {_first(values, outside)}; "
            f"pass the range the score can take as support=(a, b), (-1.0, 1.0) for a margin"
        )
    values.flags.writeable = False
    return values


def _first(values: NDArray[np.float64], bad: NDArray[np.bool_]) -> str:
    where = int(np.flatnonzero(bad)[0])
    return f"{values[where]!s} at position {where} ({int(bad.sum())} of {values.size} are bad)"
