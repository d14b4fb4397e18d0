"""The fixed grid on which scores are counted.

Counting scores on a grid makes samples mergeable (counts add), makes memory independent of their number, and makes a
sum of counts independent of the order in which batches arrive. Rounding a score down to the grid gives another score
function that is nowhere larger, so a lower bound for it is a lower bound for the original, whatever the method; rounding
up serves upper bounds the same way.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DEFAULT_BINS = 16_384


@dataclass(frozen=True)
class Grid:
    """``bins + 1`` edges from ``a`` to ``b``, dense at both ends: ``a + (b - a) sin^2(pi k / (2 bins))``.

    The spacing is proportional to ``sqrt(u (1 - u))``, the standard deviation of a vote: scores next to the ends of the
    support, where confident networks live, keep eight digits; in the middle a bin is 1e-4 wide. Edges are rounded to
    float32, so that comparing a float32 score with an edge is exact.
    """

    support: tuple[float, float]
    bins: int = DEFAULT_BINS

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges, ascending; the last one is a bin of its own, for scores equal to ``b``."""
        return _edges(*self.support, self.bins)

    @property
    def size(self) -> int:
        """How many counters the grid has."""
        return self.bins + 1

    def locate(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The counter of each value: the last edge that is not above it."""
        return (np.searchsorted(self.edges, values, side="right") - 1).astype(np.int64)

    def round_down(self, counters: NDArray[np.int64]) -> NDArray[np.float64]:
        """A score that no value counted there is below."""
        return self.edges[counters]

    def round_up(self, counters: NDArray[np.int64]) -> NDArray[np.float64]:
        """A score that no value counted there is above."""
        return self.edges[np.minimum(counters + 1, self.bins)]


@lru_cache(maxsize=64)
def _edges(a: float, b: float, bins: int) -> NDArray[np.float64]:
    u = np.sin(np.pi * np.arange(bins + 1) / (2 * bins)) ** 2
    edges = (a + (b - a) * u).astype(np.float32).astype(np.float64)
    edges[0], edges[-1] = a, b
    edges = np.clip(edges, a, b)
    edges.flags.writeable = False
    return edges
