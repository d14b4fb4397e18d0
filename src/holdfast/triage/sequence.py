"""Many thresholds, one delta."""

from collections.abc import Callable, Sequence

from holdfast.triage.threshold_test import ThresholdTest

STARTS = 5


def starts_among(count: int) -> int:
    """The number of thresholds that start with a share of delta."""
    return min(STARTS, count)


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
