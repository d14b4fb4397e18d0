"""How many are accepted under any attack, at least."""

import numpy as np

from holdfast.bands import BerkJones
from holdfast.triage.rule import AcceptanceRule


def coverage(sure: int, inputs: int, rule: AcceptanceRule, delta: float) -> float:
    """A lower bound on the share accepted, from how many of the inputs are sure; for all thresholds at once.

    Source:
        docs/triage.md.
    """
    share = float(BerkJones().lower(np.array([sure]), inputs, delta)[0])
    return max(0.0, (1 - rule.missed) * (share - rule.alpha) / (1 - rule.alpha) * (1 - 1e-12))
