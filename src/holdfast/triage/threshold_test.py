"""The exact binomial test of one threshold: inputs that could be wrong against inputs that are surely right."""

import math
from dataclasses import dataclass, replace

from scipy.special import bdtr

from holdfast.certificates.proportions import clopper_pearson_lower

_FLOOR_SHARE = 0.1
"""The share of the level that bounds how many are sure; the rest tests the ratio."""


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
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self.passes(middle, level) else (middle, high)
        return min(1.0, math.nextafter(high, 2.0))

    def _left(self, epsilon: float, sure: float) -> float:
        """The weight of a sure input, less what failed certificates and false acceptances may spoil of it."""
        wrong_weight, sure_weight = (1 - epsilon) * (1 - self.alpha), epsilon * (1 - self.missed)
        return sure_weight - (wrong_weight + sure_weight) * self.alpha / sure

    @property
    def observed(self) -> float:
        """The share of those that could be wrong among all that count; an estimate of the error under attack."""
        return self.could_be_wrong / max(1, self.could_be_wrong + self.surely_right)
