"""What a triage is to promise, and how many labelled inputs and noisy copies that takes: known before any are certified."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidArgument
from holdfast.measures import SUM_TOLERANCE
from holdfast.triage.rule import MOST_ASKED, AcceptanceRule, fewest
from holdfast.triage.threshold_test import ThresholdTest, check_grid, starts_among
from holdfast.validation import check_alpha, check_count, check_share

GRID = tuple(round(1 - 0.02 * 25 ** (step / 39), 3) for step in range(40))
"""From 0.98 down to 0.5, in steps that grow with the distance from one."""


@dataclass(frozen=True)
class Promise:
    """At most a share ``epsilon`` of what is accepted is wrong, with probability at least ``1 - delta``.

    Attributes:
        alpha: failure probability of each certificate, and of each decision at deployment.
        thresholds: those that are tried, from the highest down; each start among them gets ``level`` of delta.
    """

    epsilon: float
    delta: float
    alpha: float
    thresholds: tuple[float, ...]

    @classmethod
    def of(
        cls,
        *,
        epsilon: float = 0.05,
        delta: float = 0.05,
        alpha: float | None = None,
        thresholds: Sequence[float] | None = None,
    ) -> "Promise":
        """The promise with the usual alpha, ``epsilon / 50``, and thresholds; refused if no number of inputs could show it."""
        epsilon, delta = check_share("epsilon", epsilon), check_share("delta", delta)
        own_alpha = check_alpha(epsilon / 50 if alpha is None else alpha)
        found = cls(epsilon, delta, own_alpha, check_grid(GRID if thresholds is None else thresholds))
        best = found._test(MOST_ASKED, 0)
        if best.passes(epsilon, delta):
            return found
        if not best.possible(epsilon):
            raise InvalidArgument(
                f"alpha = {own_alpha:g} is too large for epsilon = {epsilon:g}: what single certificates may miss is already as "
                f"much; give a smaller one, epsilon/50 is usual"
            )
        raise InvalidArgument(
            f"epsilon = {epsilon:g} with delta = {delta:g} and alpha = {own_alpha:g} would need more than {MOST_ASKED:,} labelled "
            f"inputs, all of them sure; give a larger epsilon"
        )

    @property
    def level(self) -> float:
        """Of delta, for each threshold that is a start; one that is reached from above may have more."""
        return self.delta / starts_among(len(self.thresholds))

    @property
    def inputs(self) -> int:
        """With fewer labelled inputs no threshold passes, even if all are surely accepted as what they are."""
        return fewest(lambda count: self._test(count, 0).passes(self.epsilon, self.level))

    def could_be_wrong(self, inputs: int) -> int | None:
        """Of so many labelled inputs, how many some attack may get accepted as a wrong class, if all others are surely accepted.

        With more of them a threshold does not pass at its own ``level``; None if it does not with any.
        """
        check_count("inputs", inputs)
        failing = fewest(
            lambda count: count > inputs or not self._test(inputs, count - 1).passes(self.epsilon, self.level)
        )
        return None if failing == 1 else failing - 2

    def sure_from(self, threshold: float, n: int, n0: int) -> float:
        """The true average score from which on n + n0 copies surely accept at a threshold; infinite if they never do."""
        return AcceptanceRule(threshold, n, n0, self.alpha, SUM_TOLERANCE).sure_from

    def _test(self, inputs: int, could_be_wrong: int) -> ThresholdTest:
        """With as many copies as it takes: the service then misses a sure input with probability alpha."""
        return ThresholdTest(inputs, could_be_wrong, inputs - could_be_wrong, self.alpha, self.alpha)
