"""From labelled certificates to a threshold."""

from collections.abc import Callable, Sequence

import numpy as np

from holdfast.bands import BerkJones
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.triage.reach import Labelled, Origin, Reach, measure_reach
from holdfast.triage.reliability import reliability
from holdfast.triage.result import Row, Triage
from holdfast.triage.rule import Rule
from holdfast.triage.sequence import fallback, starting_levels
from holdfast.triage.tally import Tally
from holdfast.validation import check_alpha, check_number, check_radius

GRID = tuple(round(1 - 0.02 * 25 ** (step / 39), 3) for step in range(40))
"""From 0.98 down to 0.5, in steps that grow with the distance from one."""

_MOST_ASKED = 1_000_000


def choose_threshold(
    labelled: Labelled,
    *,
    radius: float,
    epsilon: float = 0.05,
    delta: float = 0.05,
    alpha: float | None = None,
    thresholds: Sequence[float] | None = None,
) -> Triage:
    """Pick the confidence from which on a service may decide by itself, although every input may be attacked.

    Guarantee:
        The result's: see :class:`Triage`.

    Parameters:
        labelled: pairs of a certificate and its label, such as ``zip(certificates, labels)`` or ``run.labelled()``; held out, drawn
            like the inputs of deployment.
        radius: how far an adversary may move an input.
        epsilon: the largest error allowed among accepted inputs.
        delta: the probability with which the calibration inputs may mislead.
        alpha: failure probability of each certificate, and of each decision at deployment; default epsilon/50.
        thresholds: those to try, in [0.5, 1); default 40 from 0.98 down to 0.5. Fewer get more of delta each.
    """
    check_radius(radius)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < check_number(name, value) <= 0.5:
            raise InvalidArgument(f"{name} must be in (0, 0.5], got {value!r}")
    own_alpha = check_alpha(epsilon / 50 if alpha is None else alpha)
    grid = _check_grid(thresholds)
    if not Tally(_MOST_ASKED, 0, _MOST_ASKED, own_alpha, own_alpha).passes(epsilon, delta):
        raise InvalidArgument(
            f"alpha = {own_alpha:g} is too large for epsilon = {epsilon:g}: what single certificates may miss is already as "
            f"much; give a smaller one, epsilon/50 is usual"
        )
    reach, origin = measure_reach(labelled, radius=radius, alpha=own_alpha)
    rules = [Rule(threshold, origin.n, origin.n0, own_alpha) for threshold in grid]
    _check_enough(len(reach), rules, origin, epsilon, delta)
    tallies = [tally(reach, rule) for rule in rules]
    rows = tuple(
        _row(reach, rule, counted, certified, delta)
        for rule, counted, certified in zip(rules, tallies, certified_among(tallies, epsilon, delta), strict=True)
    )
    return Triage(radius, epsilon, delta, own_alpha, len(reach), origin, rows, reliability(reach, delta=delta))


def certified_among(tallies: Sequence[Tally], epsilon: float, delta: float) -> list[bool]:
    """Which thresholds, from the highest down, are shown to keep the error among accepted at epsilon or less.

    Guarantee:
        With probability at least ``1 - delta``, all of them do, under every adversary.
    Source:
        docs/triage.md, Lemma 7.
    """
    levels = starting_levels(len(tallies), delta)
    return fallback(levels, lambda number, level: tallies[number].passes(epsilon, level))


def tally(reach: Reach, rule: Rule) -> Tally:
    """Count who could be accepted and wrong, and who surely is accepted."""
    wrong = reach.wrong >= rule.threshold
    sure = (reach.sure >= rule.sure_from) & ~wrong
    return Tally(len(reach), int(wrong.sum()), int(sure.sum()), rule.alpha, rule.missed)


def _row(reach: Reach, rule: Rule, counted: Tally, certified: bool, delta: float) -> Row:
    accepted = reach.average >= rule.needed
    sure = np.array([np.count_nonzero(reach.sure >= rule.sure_from)])
    share = float(BerkJones().lower(sure, len(reach), delta)[0])
    return Row(
        threshold=rule.threshold,
        sure_from=rule.sure_from,
        could_be_wrong=counted.could_be_wrong,
        surely_right=counted.surely_right,
        observed=counted.observed,
        error_bound=counted.error_bound(delta),
        coverage=max(0.0, (1 - rule.missed) * (share - rule.alpha) / (1 - rule.alpha) * (1 - 1e-12)),
        certified=certified,
        clean_accepted=int(accepted.sum()),
        clean_wrong=int((accepted & ~reach.right).sum()),
    )


def _check_grid(thresholds: Sequence[float] | None) -> tuple[float, ...]:
    grid = GRID if thresholds is None else tuple(sorted(set(thresholds), reverse=True))
    if not grid or not all(0.5 <= check_number("threshold", each) < 1 for each in grid):
        raise InvalidArgument(f"thresholds must be one or more numbers in [0.5, 1), got {thresholds!r}")
    return grid


def _check_enough(inputs: int, rules: Sequence[Rule], origin: Origin, epsilon: float, delta: float) -> None:
    """Refuse what could not succeed even if every input were sure and none could be wrong."""
    able = [rule for rule in rules if rule.possible and rule.missed < 0.5]
    if not able:
        raise InvalidInput(
            f"{origin.n:,} + {origin.n0:,} noisy copies per input are too few to accept anything at these thresholds; certify with more"
        )
    level, best = max(starting_levels(len(rules), delta)), min(able, key=lambda rule: rule.missed)

    def succeeds(count: int) -> bool:
        return Tally(count, 0, count, best.alpha, best.missed).passes(epsilon, level)

    if not succeeds(inputs):
        raise InvalidInput(
            f"{inputs} labelled inputs are too few for epsilon = {epsilon:g} and delta = {delta:g}: at least "
            f"{_fewest(succeeds):,} are needed, even if none of them could be accepted and wrong"
        )


def _fewest(succeeds: Callable[[int], bool]) -> int:
    low, high = 0, 1
    while not succeeds(high) and high < _MOST_ASKED:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if succeeds(middle) else (middle, high)
    return high
