"""Whether a triage that was read back is what its own counts give."""

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.scores.rounding import format_number
from holdfast.triage.coverage import coverage
from holdfast.triage.rule import AcceptanceRule
from holdfast.triage.sequence import certified_among
from holdfast.triage.threshold_test import ThresholdTest
from holdfast.validation import check_alpha, check_count, check_radius, check_share

if TYPE_CHECKING:
    from holdfast.triage.result import Row, Triage

_CLOSE = 1e-6
"""Other versions of the special functions differ by less."""

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"


def check_consistent(triage: "Triage", *, threshold: float | None, guarantee: str) -> None:
    """Refuse numbers that were edited: everything that follows from the counts is computed again.

    Requires:
        Counts that are as they were written. Nothing here can tell a file whose every number was made up; keep it where
        only trusted people write.
    """
    check_radius(triage.radius)
    check_share("epsilon", triage.epsilon)
    check_share("delta", triage.delta)
    check_alpha(triage.alpha)
    for name, count in (("inputs", triage.inputs), ("n", triage.n), ("n0", triage.n0), ("bins", triage.origin.bins)):
        check_count(name, count)
    if not triage.rows or any(above.threshold <= below.threshold for above, below in pairwise(triage.rows)):
        raise InvalidArgument("rows must be one or more, with thresholds that fall from line to line")
    tolerance = triage.origin.sum_tolerance
    rules = [AcceptanceRule(row.threshold, triage.n, triage.n0, triage.alpha, tolerance) for row in triage.rows]
    tests = [_test(triage, row, rule) for row, rule in zip(triage.rows, rules, strict=True)]
    passed = certified_among(tests, triage.epsilon, triage.delta)
    for row, rule, test, certified in zip(triage.rows, rules, tests, passed, strict=True):
        where = f"threshold {format_number(row.threshold)}"
        if row.certified is not certified:
            _refuse(f"certified at {where} (epsilon {format_number(triage.epsilon)})", row.certified, certified)
        _check_close(f"error_bound at {where}", row.error_bound, test.error_bound(triage.delta))
        _check_close(f"observed at {where}", row.observed, test.observed)
        _check_close(f"sure_from at {where}", row.sure_from, rule.sure_from)
        most = coverage(test.surely_right + test.could_be_wrong, triage.inputs, rule, triage.delta)
        if not 0 <= row.coverage <= most + _CLOSE:
            _refuse(f"coverage at {where}", row.coverage, f"at most {most!r}")
    if threshold != triage.threshold:
        _refuse("threshold", threshold, triage.threshold)
    # The radius is in no count, and a slightly smaller epsilon may pass the same thresholds: the sentence names both.
    for name, value, before in (("radius", triage.radius, "radius"), ("epsilon", triage.epsilon, "at(?: most)?")):
        if format_number(value) not in re.findall(rf"\b{before} ({_NUMBER})\b", guarantee):
            _refuse(name, value, f"the guarantee {guarantee!r}")


def _test(triage: "Triage", row: "Row", rule: AcceptanceRule) -> ThresholdTest:
    if not 0.5 <= row.threshold < 1:
        raise InvalidArgument(f"thresholds must be numbers in [0.5, 1), got {row.threshold!r}")
    for name in ("could_be_wrong", "surely_right", "clean_accepted", "clean_wrong"):
        check_count(name, getattr(row, name), at_least=0, at_most=triage.inputs)
    check_count(
        "could_be_wrong + surely_right", row.could_be_wrong + row.surely_right, at_least=0, at_most=triage.inputs
    )
    return ThresholdTest(triage.inputs, row.could_be_wrong, row.surely_right, triage.alpha, rule.missed)


def _check_close(name: str, stored: float, computed: float) -> None:
    if not (stored == computed or math.isclose(stored, computed, rel_tol=_CLOSE, abs_tol=_CLOSE)):
        _refuse(name, stored, computed)


def _refuse(name: str, stored: object, computed: object) -> None:
    raise InvalidArgument(
        f"not a triage file as it was written: {name} is {stored!r}, and the rest of it gives {computed!r}; "
        f"run 'holdfast triage' again"
    )
