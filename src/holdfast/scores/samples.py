"""Scores in the order of their arrival."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidInput
from holdfast.scores.exceedances import Exceedances, Scores
from holdfast.scores.grid import DEFAULT_BINS, Grid
from holdfast.scores.histogram import ScoreHistogram
from holdfast.validation import check_count, check_sigma, check_support


@dataclass(frozen=True, eq=False)
class ScoreSamples(Scores):
    """Score values in arrival order.

    Parameters:
        values: one number per noisy copy, all within ``support``.
        support: the range (a, b) the score can take: (0, 1) for a prediction score, (-1, 1) for a margin.
        sigma: standard deviation of the Gaussian noise the copies were made with.
    """

    values: NDArray[np.float64]
    support: tuple[float, float] = field(default=(0.0, 1.0), kw_only=True)
    sigma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        support = check_support(self.support)
        values = np.array(self.values, dtype=np.float64, copy=True)
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
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "support", support)
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

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
        return [ScoreSamples(part, support=self.support, sigma=self.sigma) for part in np.split(self.values, ends)]

    def reflect(self) -> "ScoreSamples":
        """The scores ``a + b - X``: their lower bounds are this one's upper bounds, mirrored."""
        a, b = self.support
        return ScoreSamples(np.clip((a + b) - self.values, a, b), support=self.support, sigma=self.sigma)

    def histogram(self, bins: int = DEFAULT_BINS) -> "ScoreHistogram":
        """Count the samples on the fixed grid."""
        grid = Grid(self.support, check_count("bins", bins, at_least=2))
        counts = np.bincount(grid.locate(self.values), minlength=grid.size)
        return ScoreHistogram(counts, support=self.support, sigma=self.sigma)


def _first(values: NDArray[np.float64], bad: NDArray[np.bool_]) -> str:
    where = int(np.flatnonzero(bad)[0])
    return f"{values[where]!s} at position {where} ({int(bad.sum())} of {values.size} are bad)"
