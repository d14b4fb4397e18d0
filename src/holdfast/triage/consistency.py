"""Whether a triage that was read back is what its own counts give."""

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.scores.rounding import format_number
from holdfast.triage.drift import check_scores
from holdfast.triage.threshold_test import ThresholdTest, certified_among, check_grid
from holdfast.validation import check_alpha, check_count, check_radius, check_share

if TYPE_CHECKING:
    from holdfast.triage.result import Triage

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
    thresholds = tuple(row.threshold for row in triage.rows)
    if not thresholds or check_grid(thresholds) != thresholds:
        raise InvalidArgument("rows must be one or more, with thresholds that fall from line to line")
    for row in triage.rows:
        for name in ("could_be_wrong", "surely_right", "clean_accepted", "clean_wrong"):
            check_count(name, getattr(row, name), at_least=0, at_most=triage.inputs)
        both = row.could_be_wrong + row.surely_right
        check_count("could_be_wrong + surely_right", both, at_least=0, at_most=triage.inputs)
    rules = [triage.origin.rule(row.threshold, triage.alpha) for row in triage.rows]
    tests = [
        ThresholdTest(triage.inputs, row.could_be_wrong, row.surely_right, triage.alpha, rule.missed)
        for row, rule in zip(triage.rows, rules, strict=True)
    ]
    passed = certified_among(tests, triage.epsilon, triage.delta)
    for row, rule, test, certified in zip(triage.rows, rules, tests, passed, strict=True):
        most = rule.coverage(row.surely_right + row.could_be_wrong, triage.inputs, triage.delta)
        where = f"at threshold {format_number(row.threshold)}"
        if row.certified is not certified:
            _refuse(f"certified {where}", row.certified, certified)
        computed = {
            "error_bound": test.error_bound(triage.delta),
            "observed": test.observed,
            "sure_from": rule.sure_from,
            "coverage": min(max(row.coverage, 0.0), most),
        }
        for name, value in computed.items():
            if not math.isclose(getattr(row, name), value, rel_tol=_CLOSE, abs_tol=_CLOSE):
                _refuse(f"{name} {where}", getattr(row, name), value)
    if threshold != triage.threshold:
        _refuse("threshold", threshold, triage.threshold)
    if triage.scores:
        _check_scores(triage, [rule.needed for rule in rules])
    # The radius is in no count, and a slightly smaller epsilon may pass the same thresholds: the sentence names both.
    for name, value, before in (("radius", triage.radius, "radius"), ("epsilon", triage.epsilon, "at(?: most)?")):
        if format_number(value) not in re.findall(rf"\b{before} ({_NUMBER})\b", guarantee):
            _refuse(name, value, f"the guarantee {guarantee!r}")


def _check_scores(triage: "Triage", needed: list[float]) -> None:
    """One for each input, in ascending order; those that a threshold accepts are counted in its row."""
    scores = check_scores(triage.scores)
    if len(scores) != triage.inputs or (np.diff(scores) < 0).any():
        _refuse("scores", f"{len(scores)} numbers", f"{triage.inputs} in ascending order")
    for row, least in zip(triage.rows, needed, strict=True):
        most, fewest = (int((scores >= least + off).sum()) for off in (-_CLOSE, _CLOSE))
        if not fewest <= row.clean_accepted <= most:
            _refuse(f"clean_accepted at threshold {format_number(row.threshold)}", row.clean_accepted, fewest)


def _refuse(name: str, stored: object, computed: object) -> None:
    raise InvalidArgument(
        f"not a triage file as it was written: {name} is {stored!r}, and the rest of it gives {computed!r}; "
        f"run 'holdfast triage' again"
    )
