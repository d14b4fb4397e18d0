"""Tangent certificates: the CDF bound from means instead of a band.

``g_R`` is convex, so for any function q fixed before the samples are seen, ``g_R(p) >= g_R(q) + g_R'(q) (p - q)``, and with
``psi(t) = Integral_a^t g_R'(q(s)) ds``::

    T(R) = a + Integral g_R(p(s)) ds  >=  a + Integral [g_R(q) - g_R'(q) q] ds + E psi(X)

Of the noise, only ``g_R`` and its slope ``g_R'`` enter, so this holds for every noise.

The last term is the mean of one bounded variable, for which betting is nearly optimal. A band must hold for every
threshold at once; a tangent must hold for one number, and what q misses enters to second order only.

Few samples are spent on guessing q: after a pilot, q is guessed anew for every block from the blocks before. The gambler carries
her wealth from block to block. Under the hypothesis ``T(R) <= theta`` the mean of each block's psi is at most theta less its
constant, whatever came before, so her wealth is a supermartingale and reaches 1/alpha with probability at most alpha.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from holdfast.means.rounds import Payoff, largest_refuted, needed_wealth
from holdfast.means.star import StarGame
from holdfast.noise import Noise
from holdfast.scores import Exceedances
from holdfast.scores.exceedances import spread_ranks

_GROWTH = 0.06
_HALVINGS = 5
_ANEW = 1.25
_STEEPEST = np.asarray(ndtr([2.0, 3.0, 3.7, 4.4]), dtype=np.float64)
"""The probabilities beyond which a guess is lowered: slopes grow with the probability, without limit for some noises."""
FARTHEST = 30.0
"""In units of the noise's scale: nothing is certified beyond it. Tangents of Gaussian noise are flat there, to the last digit."""
_LEAST_VARIANCE, _FLAT = 1e-9, 1e-300


@dataclass(frozen=True, eq=False)
class Pilot:
    """A guess q of the survival function, constant between ``edges``, from samples that came before."""

    edges: NDArray[np.float64]
    q: NDArray[np.float64]

    @classmethod
    def of(cls, samples: Exceedances) -> "Pilot":
        """The average empirical survival between a few hundred order statistics, dense in both tails."""
        a, b = samples.support
        rank = samples.at_ranks(spread_ranks(samples.n, _GROWTH))
        inner = np.unique(np.searchsorted(samples.thresholds, samples.thresholds[rank], side="left"))
        inner = inner[(samples.thresholds[inner] > a) & (samples.thresholds[inner] < b)]
        edges = np.concatenate(([a], samples.thresholds[inner], [b]))
        area = np.concatenate(([0.0], np.cumsum(samples.widths * samples.counts)))
        reached = np.concatenate((area[[0]], area[inner + 1], area[[-1]]))
        average = np.diff(reached) / (samples.n * np.diff(edges))
        q = (samples.n * np.clip(average, 0.0, 1.0) + 0.5) / (samples.n + 1)
        # Below the smallest samples above a, the distribution function is guessed to rise evenly: steep tangents live there.
        bottom = int(samples.multiplicities[samples.thresholds <= a].sum()) / (samples.n + 1)
        share = np.concatenate(([0.0], 2.0 ** -np.arange(_HALVINGS, -1, -1)))
        cuts = a + (edges[1] - a) * share[1:-1]
        rising = 1 - bottom - max(1 - bottom - q[0], 0.0) * (share[:-1] + share[1:])
        return cls(np.concatenate(([a], cuts, edges[1:])), np.concatenate((rising, q[1:])))


@dataclass(frozen=True, eq=False)
class Summary:
    """Samples in groups: the interval each group lies in, how many it has, their mean, and the distance they span."""

    interval: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    spans: NDArray[np.float64]


def summarise(samples: Exceedances, edges: NDArray[np.float64]) -> Summary:
    """Group samples within the intervals, and within few ranks of each other: in the tails every sample is a group."""
    x = samples.thresholds
    starts = np.union1d(np.searchsorted(x, edges[:-1]), samples.at_ranks(spread_ranks(samples.n, _GROWTH)))
    starts = starts[starts < len(x)]
    many = samples.multiplicities
    counts = np.add.reduceat(many, starts)
    low, high = x[starts], x[np.append(starts[1:], len(x)) - 1]
    means = np.add.reduceat(many * x, starts) / np.maximum(counts, 1)
    interval = np.clip(np.searchsorted(edges, low, side="right") - 1, 0, len(edges) - 2)
    kept = counts > 0
    return Summary(interval[kept], counts[kept], np.clip(means, low, high)[kept], (high - low)[kept])


def guesses_and_blocks(blocks: Sequence[Exceedances]) -> list[tuple[Pilot, Summary]]:
    """Every block but the first, with the guess from all blocks before it."""
    found: list[tuple[Pilot, Summary]] = []
    past = blocks[0]
    for last, block in pairwise(blocks):
        past = joined([past, last]) if found else last
        guess = Pilot.of(past)
        found.append((guess, summarise(block, guess.edges)))
    return found


@dataclass(frozen=True, eq=False)
class TangentFamily:
    """The tangents at a guess, one for each cap on their slopes (q is lowered where it would be steeper), or for each radius.

    For each: the constant ``Integral [g_R(q) - g_R'(q) q] ds``, psi at the edges, and the mean and variance that the guess
    expects of ``psi(X)``. Nothing can be won with flat ones: :meth:`at` leaves them out, and none may be left.
    """

    edges: NDArray[np.float64]
    slopes: NDArray[np.float64]
    constants: NDArray[np.float64]
    psis: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def at(cls, guess: Pilot, noise: Noise, radius: float) -> "TangentFamily":
        """The tangents at a radius."""
        tangents = cls._at(guess, noise, np.array([radius]))
        return tangents._chosen((tangents.variances[:, 0] > 0, 0))

    @classmethod
    def best(cls, guess: Pilot, noise: Noise, radii: NDArray[np.float64], goal: float, n: int) -> "TangentFamily":
        """At each of several radii, the tangent that promises most; with a variance of zero where all are flat."""
        tangents = cls._at(guess, noise, radii)
        return tangents._chosen((np.argmax(tangents.foreseen(goal, n), axis=0), np.arange(len(radii))))

    @classmethod
    def _at(cls, guess: Pilot, noise: Noise, radii: NDArray[np.float64]) -> "TangentFamily":
        """For each cap and each radius."""
        widths, mass = np.diff(guess.edges), -np.diff(guess.q, prepend=1.0, append=0.0)
        points, far = np.append(guess.q, _STEEPEST), radii[:, None]
        steep = noise.slope(points, far)
        rest = noise.least_probability(points, far) - steep * points
        capped, own, cap = guess.q > _STEEPEST[:, None, None], slice(len(guess.q)), slice(len(guess.q), None)
        slopes, rests = (np.where(capped, each[:, cap].T[..., None], each[:, own]) for each in (steep, rest))
        constants = np.sum(widths * rests, axis=-1)
        psis = np.zeros((*slopes.shape[:-1], len(guess.edges)))
        np.cumsum(widths * slopes, axis=-1, out=psis[..., 1:])
        constants -= 1e-14 * psis[..., -1]  # more than what rounding adds to the constant and to psi together
        means = psis @ mass
        variances = np.maximum(psis**2 @ mass - means**2, psis[..., -1] ** 2 * _LEAST_VARIANCE)
        return cls(guess.edges, slopes, constants, psis, means, variances)

    def _chosen(self, which: tuple[Any, ...]) -> "TangentFamily":
        parts = (each[which] for each in (self.slopes, self.constants, self.psis, self.means, self.variances))
        return TangentFamily(self.edges, *parts)

    def __len__(self) -> int:
        return len(self.constants)

    @property
    def most(self) -> NDArray[np.float64]:
        """The largest value of each psi."""
        return self.psis[..., -1]

    def foreseen(self, goal: float, n: int) -> NDArray[np.float64]:
        """The lower bound on ``T(R) - a`` that each tangent promises from n samples (Bernstein's approximation)."""
        return self.constants + self.means - np.sqrt(2 * self.variances * goal / n) - self.most * goal / (3 * n)

    def payoff(self, which: "int | slice", seen: Summary) -> Payoff:
        """A block's samples of ``psi(X)``: under ``T(R) - a <= theta`` their mean is at most theta less the constant."""
        psi, slope = self.psis[which], self.slopes[which]
        start, steep = psi[..., seen.interval], slope[..., seen.interval]
        y, spans = start + steep * (seen.means - self.edges[seen.interval]), steep * seen.spans
        low = np.maximum(start, y - spans)
        constant, most, mean, variance = (
            each[which] for each in (self.constants, self.most, self.means, self.variances)
        )
        return Payoff(constant, most, mean, variance, y, low, spans, seen.counts)


def tangent_bounds(
    rounds: Sequence[tuple[Pilot, Summary]],
    support: tuple[float, float],
    noise: Noise,
    radii: NDArray[np.float64],
    alpha: float,
) -> NDArray[np.float64]:
    """A lower bound on ``T(R)`` at each of several radii, from consecutive blocks of samples.

    Guarantee:
        Each is at most ``T(R)`` with probability at least ``1 - alpha``.
    Requires:
        The blocks are independent samples of the same score.
    Source:
        Convexity of the Neyman-Pearson curve; betting: see :mod:`holdfast.means.betting`.
    """
    a, _ = support
    goal = math.log(1 / alpha)
    n = sum(int(seen.counts.sum()) for _, seen in rounds)
    played = []
    for guess, seen in rounds:
        tangents = TangentFamily.best(guess, noise, radii, goal, n)
        stakes = np.sqrt(2 * goal / (n * np.maximum(tangents.variances, _FLAT)))
        played.append(tangents.payoff(slice(None), seen).played(np.where(tangents.variances > 0, stakes, 0.0)))
    return a + largest_refuted(played, needed_wealth(alpha))


def aimed_bound(
    blocks: Sequence[Exceedances], support: tuple[float, float], noise: Noise, radius: float, alpha: float
) -> float:
    """A lower bound on ``T(R)`` for one radius: the first block is a pilot, the others are played with STaR bets.

    Guarantee:
        At most ``T(R)`` with probability at least ``1 - alpha``.
    Requires:
        The blocks are independent samples of the same score; their sizes do not depend on the samples.
    Source:
        Convexity of the Neyman-Pearson curve; betting: see :mod:`holdfast.means.star`.
    """
    a, b = support
    if radius > FARTHEST * noise.scale:
        return a
    n, past, guessed = sum(block.n for block in blocks), blocks[0].n, 0
    game = StarGame(n, past, alpha, b - a)
    for k, block in enumerate(blocks[1:], 1):
        if past >= _ANEW * guessed:
            guess, guessed = Pilot.of(joined(blocks[:k])), past
            tangents = TangentFamily.at(guess, noise, radius)
        if len(tangents):
            best = int(np.argmax(tangents.foreseen(math.log(1 / alpha), n)))
            game.play(tangents.payoff(best, summarise(block, guess.edges)))
        else:
            game.skip(block.n)
        past += block.n
    return a + game.refuted


def joined(blocks: Sequence[Exceedances]) -> Exceedances:
    """Several blocks as one sample."""
    if len(blocks) == 1:
        return blocks[0]
    values = np.concatenate([block.thresholds for block in blocks])
    many = np.concatenate([block.multiplicities for block in blocks])
    order = np.argsort(values, kind="stable")
    counts = np.cumsum(many[order][::-1])[::-1]
    return Exceedances(values[order], counts, sum(block.n for block in blocks), blocks[0].support)
