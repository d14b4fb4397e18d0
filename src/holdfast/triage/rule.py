"""The service's rule: accept a class whose confidence at the received input is certified to reach a threshold."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import rel_entr

from holdfast.bands import BerkJones
from holdfast.measures import SUM_TOLERANCE

MOST_ASKED = 1_000_000
"""Nobody is asked for more inputs than this."""
_ROOM = 1e-9
"""Far more than rounding adds to an average of scores; averages that are needed are raised by it."""


@dataclass(frozen=True)
class Verdict:
    """What the rule says about one input."""

    accepted: bool
    predicted: int
    confidence: float
    reason: str


@dataclass(frozen=True)
class AcceptanceRule:
    """Choose a class from ``n0`` noisy copies; accept it if its average score over ``n`` others is at least ``needed``.

    Guarantee:
        At any input, whatever chose it, as long as that did not see the noise: if no wrong class has an average score of
        ``threshold`` there, a wrong one is accepted with probability at most ``alpha``; if the right class has one of
        ``sure_from``, it is accepted with probability at least ``1 - missed``.
    Source:
        W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963), Theorem 1, in its
        form with the relative entropy; docs/triage.md, Lemma 1.

    Attributes:
        sum_tolerance: how far the probabilities of one noisy copy may be from summing to one.
    """

    threshold: float
    n: int
    n0: int
    alpha: float
    sum_tolerance: float = SUM_TOLERANCE

    @cached_property
    def needed(self) -> float:
        """The smallest average score that is accepted; above one if there are too few copies for this threshold."""
        if kl(1.0, self.threshold) < self._goal:
            return math.inf
        return bracket(lambda v: kl(v, self.threshold) < self._goal, self.threshold, 1.0)[1] + _ROOM

    @property
    def possible(self) -> bool:
        """Whether anything can be accepted."""
        return self.needed <= 1.0

    @cached_property
    def sure_from(self) -> float:
        """An input whose true average score is at least this is accepted, except with probability ``missed``."""
        if not self.possible:
            return math.inf
        average = self.needed + _ROOM
        return 1.0 if average >= 1 else bracket(lambda u: kl(average, u) < self._goal, average, 1.0)[1]

    @cached_property
    def missed(self) -> float:
        """The probability that such an input is handed over: another class is chosen, or the average is too low."""
        if not self.possible:
            return 1.0
        half = (1 + self.sum_tolerance) / 2 + _ROOM
        chosen = kl(half, self.sure_from) if self.sure_from > half else 0.0
        return min(1.0, self.alpha + math.exp(-self.n0 * chosen))

    def accepts(self, average: float) -> bool:
        """Whether this average score over n copies is enough."""
        return average >= self.needed

    def confidence(self, average: float) -> float:
        """The confidence at the input that this average certifies, rounded down; for display."""
        return bracket(lambda u: kl(average, u) >= self._goal, 0.0, min(max(average, 0.0), 1.0))[0]

    def coverage(self, sure: int, inputs: int, delta: float) -> float:
        """A lower bound on the share accepted under any attack, if ``sure`` of the inputs are; for all thresholds at once.

        Source:
            docs/triage.md.
        """
        share = float(BerkJones().lower(np.array([sure]), inputs, delta)[0])
        return max(0.0, (1 - self.missed) * (share - self.alpha) / (1 - self.alpha) * (1 - 1e-12))

    @property
    def _goal(self) -> float:
        """The relative entropy that n copies reach with probability at most alpha."""
        return math.log(1 / self.alpha) / self.n


def kl(v: float, u: float) -> float:
    """Relative entropy of Bernoulli(v) with respect to Bernoulli(u)."""
    return float(rel_entr(v, u) + rel_entr(1 - v, 1 - u))


def fewest(succeeds: Callable[[int], bool]) -> int:
    """The smallest count from which on it succeeds; at least :data:`MOST_ASKED` if it does not before."""
    low, high = 0, 1
    while not succeeds(high) and high < MOST_ASKED:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if succeeds(middle) else (middle, high)
    return high


def bracket(below: Callable[[float], bool], low: float, high: float, *, halvings: int = 60) -> tuple[float, float]:
    """Two numbers close to each other in [low, high]: up to the first ``below`` is true, from the second on it is not."""
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high
