"""Certified Brier score and calibration error: how bad an adversary can make them, from bounds on each input."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.means import Betting
from holdfast.scores import Exceedances
from holdfast.triage.attack_bounds import AttackBounds

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Brier score and calibration error of the answer: its confidence z, the largest average score, against right or wrong.

    Guarantee:
        Each upper bound, by itself, holds for the population the inputs are a sample of, and for every adversary within
        the radius, with probability at least ``1 - delta``.
    Source:
        docs/triage.md. The largest binned error over a box of confidences is a maximum over sign patterns, exactly.

    Attributes:
        brier: mean of ``(z - right)^2`` at the inputs themselves, z estimated by averages; no guarantee.
        brier_upper: upper bound under attack.
        ece: expected calibration error, ten bins of equal width, at the inputs themselves; no guarantee.
        ece_worst: the largest that perturbations allowed by the certificates could give these inputs.
        ece_upper: upper bound under attack for the population.
    """

    brier: float
    brier_upper: float
    ece: float
    ece_worst: float
    ece_upper: float


@dataclass(frozen=True, eq=False)
class Option:
    """For some of the inputs: the confidence may be anywhere in an interval, with the answer right or wrong."""

    open: NDArray[np.bool_]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    right: NDArray[np.float64]


def reliability(bounds: AttackBounds, *, delta: float) -> Reliability:
    """Bounds from what an adversary can do to each input."""
    hit = bounds.right.astype(np.float64)
    exact = Option(np.ones(len(bounds), dtype=np.bool_), bounds.average, bounds.average, hit)
    n, worst = len(bounds), largest_ece(options_of(bounds))
    deviation = math.sqrt(2 * math.log(1 / delta) / n)
    # Betting bounds the mean of what is left of each input's largest square; failed certificates may add their alpha.
    left = Exceedances(np.sort(1 - largest_squares(bounds)), np.arange(n, 0, -1, dtype=np.int64), n, (0.0, 1.0))
    return Reliability(
        brier=float(np.mean((bounds.average - hit) ** 2)),
        brier_upper=min(1.0, 1 - Betting().lower(left, delta) + bounds.alpha + 1e-9),
        ece=largest_ece([exact]),
        ece_worst=worst,
        ece_upper=min(1.0, worst + 2 * bounds.alpha + deviation + 1e-9),
    )


def options_of(bounds: AttackBounds) -> list[Option]:
    """The class stays; or, where it does not surely lead, another one wins: a wrong one, or the right one."""
    hit = bounds.right.astype(np.float64)
    loses = ~bounds.leads & (bounds.other >= bounds.lower)
    return [
        Option(np.ones(len(bounds), dtype=np.bool_), bounds.lower, bounds.upper, hit),
        Option(loses, bounds.lower, bounds.other, np.zeros(len(bounds))),
        Option(loses & ~bounds.right, bounds.lower, bounds.other, np.ones(len(bounds))),
    ]


def largest_squares(bounds: AttackBounds) -> NDArray[np.float64]:
    """For each input, the largest ``(z - right)^2`` among its options."""
    squares = [
        np.where(each.open, np.maximum(np.abs(each.low - each.right), np.abs(each.high - each.right)) ** 2, 0.0)
        for each in options_of(bounds)
    ]
    return np.asarray(np.max(squares, axis=0), dtype=np.float64)


def largest_ece(options: list[Option]) -> float:
    """The largest binned calibration error over every choice of an option, and of a confidence in it, for each input."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    under = np.full((len(options[0].low), BINS), -np.inf)
    over = under.copy()
    for each in options:
        low = np.maximum(each.low[:, None], edges[:-1])
        high = np.minimum(each.high[:, None], edges[1:])
        inside = each.open[:, None] & (low <= high)
        under = np.maximum(under, np.where(inside, each.right[:, None] - low, -np.inf))
        over = np.maximum(over, np.where(inside, high - each.right[:, None], -np.inf))
    # A confidence on an edge may be counted on either side of it: at most this raises the result.
    return max(
        float(np.where(np.array(signs), under, over).max(axis=1).mean())
        for signs in itertools.product((False, True), repeat=BINS)
    )
