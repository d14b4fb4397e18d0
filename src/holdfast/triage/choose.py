"""From labelled certificates to a threshold."""

from collections.abc import Sequence

import numpy as np

from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidInput
from holdfast.triage.attack_bounds import AttackBounds, Labelled, Origin, bound_attacks
from holdfast.triage.promise import Promise
from holdfast.triage.reliability import reliability
from holdfast.triage.result import Row, Triage
from holdfast.triage.rule import MOST_ASKED, AcceptanceRule, fewest
from holdfast.triage.threshold_test import ThresholdTest, able_among, certified_among, starts_among
from holdfast.validation import check_radius


def choose_threshold(
    labelled: Labelled,
    *,
    radius: float,
    epsilon: float = 0.05,
    delta: float = 0.05,
    alpha: float | None = None,
    thresholds: Sequence[float] | None = None,
    fingerprint: str | None = None,
    spot_check: SpotCheck | None = None,
) -> Triage:
    """Choose a confidence threshold above which a service may decide automatically, although every input may be attacked.

    Guarantee:
        The result's: see :class:`Triage`.

    Parameters:
        labelled: pairs of a certificate and its label, such as ``run.labelled()`` or ``zip(certificates, labels,
            strict=True)``; held out, drawn like the inputs of deployment, each once.
        radius: how far an adversary may move an input.
        epsilon: the largest error allowed among accepted inputs.
        delta: the probability with which the calibration inputs may mislead.
        alpha: failure probability of each certificate, and of each decision at deployment; default epsilon/50.
        thresholds: those to try, in [0.5, 1); default 40 from 0.98 down to 0.5. Fewer get more of delta each.
        fingerprint: of the network, such as ``smoothed.fingerprint`` or ``run.fingerprint``: deployment then refuses another.
        spot_check: of the network, such as ``run.spot_check``: deployment then refuses one that answers otherwise.
    """
    radius = check_radius(radius)
    promise = Promise.of(epsilon=epsilon, delta=delta, alpha=alpha, thresholds=thresholds)
    epsilon, delta = promise.epsilon, promise.delta
    bounds, origin = bound_attacks(labelled, radius=radius, alpha=promise.alpha)
    rules = [origin.rule(threshold, promise.alpha) for threshold in promise.thresholds]
    tests = [threshold_test(bounds, rule) for rule in rules]
    _check_enough(tests, rules, origin, epsilon, delta)
    rows = tuple(
        _row(bounds, rule, test, certified, delta)
        for rule, test, certified in zip(rules, tests, certified_among(tests, epsilon, delta), strict=True)
    )
    brier_and_ece = reliability(bounds, delta=delta)
    return Triage(
        radius,
        epsilon,
        delta,
        promise.alpha,
        len(bounds),
        origin,
        rows,
        brier_and_ece,
        fingerprint,
        spot_check=spot_check,
        scores=tuple(np.sort(bounds.average).tolist()),
    )


def threshold_test(bounds: AttackBounds, rule: AcceptanceRule) -> ThresholdTest:
    """Count who could be accepted and wrong, and who surely is accepted."""
    wrong = bounds.wrong >= rule.threshold
    sure = (bounds.sure >= rule.sure_from) & ~wrong
    return ThresholdTest(len(bounds), int(wrong.sum()), int(sure.sum()), rule.alpha, rule.missed)


def _row(bounds: AttackBounds, rule: AcceptanceRule, test: ThresholdTest, certified: bool, delta: float) -> Row:
    accepted = bounds.average >= rule.needed
    sure = int(np.count_nonzero(bounds.sure >= rule.sure_from))
    return Row(
        threshold=rule.threshold,
        sure_from=rule.sure_from,
        could_be_wrong=test.could_be_wrong,
        surely_right=test.surely_right,
        observed=test.observed,
        error_bound=test.error_bound(delta),
        coverage=rule.coverage(sure, len(bounds), delta),
        certified=certified,
        clean_accepted=int(accepted.sum()),
        clean_wrong=int((accepted & ~bounds.right).sum()),
    )


def _check_enough(
    tests: Sequence[ThresholdTest], rules: Sequence[AcceptanceRule], origin: Origin, epsilon: float, delta: float
) -> None:
    """Refuse what could not succeed even if every input were sure and none could be wrong."""
    if not any(rule.possible and rule.missed < 0.5 for rule in rules):
        raise InvalidInput(
            f"{origin.n:,} + {origin.n0:,} noisy copies per input are too few to accept anything at these thresholds; certify with more"
        )
    if any(able_among(tests, epsilon, delta)):
        return
    level, best = delta / starts_among(len(tests)), min(tests, key=lambda each: each.missed)
    if not best.at_best(MOST_ASKED).passes(epsilon, level):
        raise InvalidInput(
            f"{origin.n:,} + {origin.n0:,} noisy copies per input are too few for epsilon = {epsilon:g}: the service would miss too "
            f"many of the inputs that are sure; certify with more"
        )
    least = fewest(lambda count: best.at_best(count).passes(epsilon, level))
    raise InvalidInput(
        f"{best.inputs} labelled inputs are too few for epsilon = {epsilon:g} and delta = {delta:g}: at least "
        f"{least:,} are needed, even if none of them could be accepted and wrong"
    )
