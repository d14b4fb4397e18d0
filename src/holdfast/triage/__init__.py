"""Decisions with a guarantee: which confidence is enough to decide without a human, although inputs may be attacked."""

from holdfast.triage.choose import choose_threshold
from holdfast.triage.reach import Reach
from holdfast.triage.reliability import Reliability
from holdfast.triage.result import Row, Triage
from holdfast.triage.rule import Rule, Verdict

__all__ = ["Reach", "Reliability", "Row", "Rule", "Triage", "Verdict", "choose_threshold"]
