"""Counts of scores on a fixed grid: memory does not depend on how many there are, and histograms add."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.noise import Noise, as_noise, noise_fields, stored_noise
from holdfast.scores.exceedances import Exceedances, Scores
from holdfast.scores.grid import Grid
from holdfast.scores.order import RandomOrder
from holdfast.validation import check_count, check_support

MOST_BINS = 2**20
"""A thousand times the usual; more would only fill the memory."""


class OccupiedCounters(Scores):
    """A histogram by the counters that are not zero: as it is stored and sent, and all that bounds look at.

    Trusted as it is: made from a :class:`ScoreHistogram`, or read from where one was stored. ``order`` puts the samples in
    an order, for methods that need one.
    """

    def __init__(
        self,
        occupied: NDArray[np.integer[Any]],
        counts: NDArray[np.integer[Any]],
        grid: Grid,
        *,
        noise: Noise,
        order: RandomOrder | None = None,
    ) -> None:
        self.order = order
        self.occupied, self.counts = np.asarray(occupied, dtype=np.int64), np.asarray(counts, dtype=np.int64)
        self.grid, self.support, self.noise = grid, grid.support, noise

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.counts.sum())

    def under(self, noise: Noise, order: RandomOrder | None = None) -> "OccupiedCounters":
        """The same counts, as samples under another noise, in a random order."""
        return OccupiedCounters(self.occupied, self.counts, self.grid, noise=noise, order=order)

    def blocks(self, sizes: Sequence[int]) -> list[Scores]:
        """The samples in blocks, in their random order."""
        if self.order is None:
            return super().blocks(sizes)
        return [self._some(counts) for counts in self.order.split(self.counts, sizes)]

    def _some(self, counts: NDArray[np.int64]) -> "OccupiedCounters":
        k = np.flatnonzero(counts)
        return OccupiedCounters(self.occupied[k], counts[k], self.grid, noise=self.noise)

    def survival_lower(self) -> Exceedances:
        """Samples count as the lower edge of their bin."""
        at_least = np.cumsum(self.counts[::-1])[::-1]
        return Exceedances(self.grid.round_down(self.occupied), at_least, self.n, self.support)

    def survival_upper(self) -> Exceedances:
        """Samples count as the upper edge of their bin, then the score is reflected."""
        a, b = self.support
        at_most = np.cumsum(self.counts)
        mirrored = np.clip((a + b) - self.grid.round_up(self.occupied), a, b)
        return Exceedances(mirrored[::-1], at_most[::-1], self.n, self.support)


@dataclass(frozen=True, eq=False, init=False)
class ScoreHistogram(Scores):
    """How many samples fell on each step of the fixed grid of :mod:`holdfast.scores.grid`.

    Memory does not depend on the number of samples, histograms of the same score add, and every bound computed from one
    is a bound for the original scores: samples count as the lower edge of their bin in a lower bound and as the upper
    edge in an upper bound. ``sigma=s`` is the short form of ``noise=Gaussian(s)``.
    """

    counts: NDArray[np.int64]
    support: tuple[float, float]
    noise: Noise

    def __init__(
        self,
        counts: ArrayLike,
        *,
        support: Sequence[float] = (0.0, 1.0),
        sigma: float | None = None,
        noise: Noise | None = None,
    ) -> None:
        dense = np.array(counts, dtype=np.int64, copy=True)
        if dense.ndim != 1 or dense.size < 3:
            raise InvalidInput(f"counts must be a one-dimensional array of bins + 1 counters, got shape {dense.shape}")
        if (dense < 0).any() or dense.sum() == 0:
            raise InvalidInput("counts must be nonnegative and not all zero")
        dense.flags.writeable = False
        object.__setattr__(self, "counts", dense)
        object.__setattr__(self, "support", check_support(support))
        object.__setattr__(self, "noise", as_noise(noise, sigma))

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.counts.sum())

    @property
    def grid(self) -> Grid:
        """The grid the samples were counted on."""
        return Grid(self.support, self.counts.size - 1)

    @cached_property
    def occupied(self) -> NDArray[np.int64]:
        """The counters that are not zero."""
        return np.flatnonzero(self.counts).astype(np.int64)

    def compact(self) -> "OccupiedCounters":
        """The same counts without the zeros."""
        k = self.occupied
        return OccupiedCounters(k, self.counts[k], self.grid, noise=self.noise)

    def under(self, noise: Noise, order: RandomOrder | None = None) -> "OccupiedCounters":
        """The same counts, as samples under another noise, in a random order."""
        return self.compact().under(noise, order)

    def survival_lower(self) -> Exceedances:
        """Samples count as the lower edge of their bin."""
        return self.compact().survival_lower()

    def survival_upper(self) -> Exceedances:
        """Samples count as the upper edge of their bin, then the score is reflected."""
        return self.compact().survival_upper()

    def coarser(self, bins: int) -> "ScoreHistogram":
        """The same samples counted on a grid with fewer bins, to store less.

        Guarantee:
            Every edge of the coarser grid is one of this grid, so what is counted is exactly what counting the samples
            there would have given: bounds stay valid, and can only become looser (except for bands at a few equal-count
            thresholds, where new ties may also help).
        Requires:
            ``bins`` that divide this grid's by a power of two: grids that do not nest would move samples.
        """
        check_count("bins", bins, at_least=2)
        fine, coarse = self.grid, Grid(self.support, bins)
        factor, rest = divmod(fine.bins, bins)
        if rest or factor & (factor - 1) or not np.array_equal(fine.edges[::factor], coarse.edges):
            raise InvalidArgument(
                f"a histogram of {fine.bins} bins can be counted on a half, a quarter, an eighth, ... of them, got {bins}"
            )
        starts = np.arange(0, fine.size, factor)
        return ScoreHistogram(np.add.reduceat(self.counts, starts), support=self.support, noise=self.noise)

    def thinned(self, n: int) -> "ScoreHistogram":
        """How ``n`` samples of the same distribution would be counted: each share of these, as many as reach it rounded down.

        Not evidence: nobody drew them. It tells what to expect of fewer samples.
        """
        check_count("n", n, at_most=self.n)
        at_least = np.cumsum(self.counts[::-1])[::-1] * n // self.n
        return ScoreHistogram(-np.diff(at_least, append=0), support=self.support, noise=self.noise)

    def __add__(self, other: "ScoreHistogram") -> "ScoreHistogram":
        mine, theirs = (self.support, self.noise, self.counts.size), (other.support, other.noise, other.counts.size)
        if mine != theirs:
            raise InvalidArgument(
                f"histograms merge only with equal support, noise and bins: got {mine} and {theirs}; count them on the same grid"
            )
        return ScoreHistogram(self.counts + other.counts, support=self.support, noise=self.noise)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreHistogram):
            return NotImplemented
        same = self.support == other.support and self.noise == other.noise
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels without its zeros."""
        k = self.occupied
        small = k.astype(np.int32), self.counts[k].astype(np.int32 if self.n < 2**31 else np.int64)
        unpack = partial(
            ScoreHistogram.from_occupied, bins=self.counts.size - 1, support=self.support, noise=self.noise
        )
        return unpack, small

    def to_dict(self) -> dict[str, Any]:
        """The occupied counters, as plain numbers."""
        k = self.occupied
        return {
            "support": list(self.support),
            **noise_fields(self.noise),
            "bins": self.counts.size - 1,
            "occupied": k.tolist(),
            "counts": self.counts[k].tolist(),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; each counter once, and whole numbers only."""
        check_count("bins", d["bins"], at_least=2, at_most=MOST_BINS)
        where, counts = (np.asarray(d[name]) for name in ("occupied", "counts"))
        if where.ndim != 1 or where.shape != counts.shape or where.dtype.kind != "i" or counts.dtype.kind != "i":
            raise InvalidInput("occupied and counts must be lists of whole numbers, as many of one as of the other")
        if np.unique(where).size != where.size:
            raise InvalidInput("occupied must name each counter once")
        return cls.from_occupied(where, counts, bins=d["bins"], support=tuple(d["support"]), noise=stored_noise(d))

    @classmethod
    def from_occupied(
        cls,
        occupied: ArrayLike,
        counts: ArrayLike,
        *,
        bins: int,
        support: tuple[float, float],
        noise: Noise,
    ) -> Self:
        """Rebuild the dense counters from the occupied ones."""
        where = np.asarray(occupied, dtype=np.int64)
        if where.size and not (where.min() >= 0 and where.max() <= bins):
            raise InvalidInput(f"histogram counters must be in 0..{bins}, got {where.min()}..{where.max()}")
        dense = np.zeros(bins + 1, dtype=np.int64)
        dense[where] = np.asarray(counts, dtype=np.int64)
        return cls(dense, support=support, noise=noise)
