"""Decisions with a guarantee: a confidence threshold above which no human is needed, although inputs may be attacked."""

from holdfast.triage.attack_bounds import AttackBounds
from holdfast.triage.choose import choose_threshold
from holdfast.triage.drift import Drift
from holdfast.triage.reliability import Reliability
from holdfast.triage.result import Row, Triage
from holdfast.triage.rule import AcceptanceRule, Verdict

__all__ = ["AcceptanceRule", "AttackBounds", "Drift", "Reliability", "Row", "Triage", "Verdict", "choose_threshold"]
