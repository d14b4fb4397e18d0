"""The exact binomial test of one threshold, and of many with one delta."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from scipy.special import bdtr

from holdfast.certificates.proportions import clopper_pearson_lower
from holdfast.errors import InvalidArgument
from holdfast.triage.rule import bracket
from holdfast.validation import check_number

_FLOOR_SHARE = 0.1
"""The share of the level that bounds how many are sure; the rest tests the ratio."""

_STARTS = 5


@dataclass(frozen=True)
class ThresholdTest:
    """Counts among ``inputs`` labelled inputs: those that could be accepted and wrong, and others that are surely accepted.

    ``alpha`` is the failure probability of each certificate, and of the service's false acceptance; ``missed`` that of its
    missing an input that is sure.
    """

    inputs: int
    could_be_wrong: int
    surely_right: int
    alpha: float
    missed: float

    def passes(self, epsilon: float, level: float) -> bool:
        """Whether the error among accepted inputs is shown to be at most epsilon, under any adversary.

        Guarantee:
            If it is larger under some adversary, this is true with probability at most ``level``.
        Source:
            docs/triage.md, Lemma 6: given how many count at all, the wrong ones are binomial (Clopper & Pearson 1934).
        """
        if self.surely_right == 0 or level <= 0:
            return False
        sure = clopper_pearson_lower(self.surely_right, self.inputs, _FLOOR_SHARE * level)
        left = self._left(epsilon, sure)
        if left <= 0:
            return False
        share = left / ((1 - epsilon) * (1 - self.alpha) + left)
        chance = float(bdtr(self.could_be_wrong, self.could_be_wrong + self.surely_right, share))
        return chance * (1 + 1e-9) <= (1 - _FLOOR_SHARE) * level

    def at_best(self, inputs: int) -> "ThresholdTest":
        """The test for this many inputs if all of them were sure."""
        return replace(self, inputs=inputs, could_be_wrong=0, surely_right=inputs)

    def possible(self, epsilon: float) -> bool:
        """Whether any number of inputs that are all sure would pass; otherwise alpha and what is missed use up epsilon."""
        return self._left(epsilon, 1.0) > 0

    def error_bound(self, level: float) -> float:
        """The smallest epsilon that passes, rounded up; one if none does."""
        _, passes = bracket(lambda epsilon: not self.passes(epsilon, level), 0.0, 1.0, halvings=40)
        return min(1.0, math.nextafter(passes, 2.0))

    def _left(self, epsilon: float, sure: float) -> float:
        """The weight of a sure input, less what failed certificates and false acceptances may spoil of it."""
        wrong_weight, sure_weight = (1 - epsilon) * (1 - self.alpha), epsilon * (1 - self.missed)
        return sure_weight - (wrong_weight + sure_weight) * self.alpha / sure

    @property
    def observed(self) -> float:
        """The share of those that could be wrong among all that count; an estimate of the error under attack."""
        return self.could_be_wrong / max(1, self.could_be_wrong + self.surely_right)


def check_grid(thresholds: Iterable[float]) -> tuple[float, ...]:
    """Return the thresholds in the order in which they are tested, from the highest down."""
    grid = tuple(sorted({check_number("threshold", each) for each in thresholds}, reverse=True))
    if not grid or not all(0.5 <= each < 1 for each in grid):
        raise InvalidArgument(f"thresholds must be one or more numbers in [0.5, 1), got {grid!r}")
    return grid


def starts_among(count: int) -> int:
    """The number of thresholds that start with a share of delta."""
    return min(_STARTS, count)


def starting_levels(able: Sequence[bool], delta: float) -> list[float]:
    """Delta in equal shares on up to five thresholds, evenly spread over those that can pass."""
    places = [place for place, each in enumerate(able) if each]
    starts = starts_among(len(places))
    levels = [0.0] * len(able)
    for start in range(starts):
        levels[places[start * len(places) // starts]] = delta / starts
    return levels


def fallback(levels: Sequence[float], passes: Callable[[int, float], bool]) -> list[bool]:
    """Test hypotheses in order: one that passes hands its level on to the next, one that fails loses it.

    Guarantee:
        If each test passes by mistake with probability at most the level it is given, all that pass are right with
        probability at least ``1 - sum(levels)``, however the tests depend on each other.
    Requires:
        An order and levels fixed without looking at the data, and tests that pass at every larger level too.
    Source:
        B. Wiens, "A fixed sequence Bonferroni procedure for testing multiple endpoints", Pharmaceutical Statistics 2
        (2003); docs/triage.md, Lemma 7.
    """
    passed: list[bool] = []
    carried = 0.0
    for number, own in enumerate(levels):
        level = own + carried
        passed.append(level > 0 and passes(number, level))
        carried = level if passed[-1] else 0.0
    return passed


def certified_among(tests: Sequence[ThresholdTest], epsilon: float, delta: float) -> list[bool]:
    """Which thresholds, from the highest down, are shown to keep the error among accepted at epsilon or less.

    Delta is given to those that are able to pass, which the numbers of inputs and copies tell without looking at any.

    Guarantee:
        With probability at least ``1 - delta``, all of them do, under every adversary.
    Source:
        docs/triage.md, Lemma 7.
    """
    levels = starting_levels(able_among(tests, epsilon, delta), delta)
    return fallback(levels, lambda number, level: tests[number].passes(epsilon, level))


def able_among(tests: Sequence[ThresholdTest], epsilon: float, delta: float) -> list[bool]:
    """Which thresholds would pass if every input were sure."""
    level = delta / starts_among(len(tests))
    return [each.at_best(each.inputs).passes(epsilon, level) for each in tests]
