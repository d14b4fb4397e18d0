"""Whether new inputs look like the calibration inputs: a two-sample test of their average scores."""

import logging
import math
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln

from holdfast.errors import InvalidInput
from holdfast.scores.rounding import ceil_decimals, format_number
from holdfast.triage.rule import fewest
from holdfast.validation import check_count, check_numbers, check_share

_log = logging.getLogger("holdfast.drift")
_MOST_PATHS = 2**31
"""SciPy leaves the exact computation, without which there is no guarantee, where sizes without their common factor multiply to this."""
_TELLING = 10
"""So many different scores do not come again by chance, to the last digit."""
_ROOM = 1e-9
"""Far more than rounding takes off a p-value."""


@dataclass(frozen=True)
class Drift:
    """The scores of new inputs, compared with those of the calibration inputs by the two-sample Kolmogorov-Smirnov test.

    Guarantee:
        If new and calibration inputs are drawn independently from one distribution, ``drifted`` is True with probability at
        most ``alpha``, whatever that distribution is, ties included. The probability is over both samples: checks against one
        calibration sample share its luck.
    Requires:
        Certificates made like those of the calibration (compared), each input once, and a number of new inputs that was
        chosen without looking at their scores.
    Source:
        J. Hodges, "The significance probability of the Smirnov two-sample test", Arkiv foer Matematik 3 (1958), the exact
        distribution without ties; docs/triage.md, "Drift": ties only make false alarms rarer.

    Attributes:
        p_value: at most ``alpha`` with probability at most ``alpha`` without drift.
        score: where the two distributions are furthest apart.
        calibration_share, share: of the calibration and of the new inputs, the part whose average score is at most ``score``.
        same: whether the scores are those of the calibration inputs, every one: then nothing new was looked at.
    """

    calibration_inputs: int
    inputs: int
    alpha: float
    p_value: float
    score: float
    calibration_share: float
    share: float
    same: bool = False

    @property
    def drifted(self) -> bool:
        """Whether new inputs are shown to be unlike the calibration inputs."""
        return self.p_value <= self.alpha

    def __str__(self) -> str:
        seen = (
            f"{self.share:.1%} of {self.inputs:,} new inputs have an average score of at most {self.score:.3f}, and "
            f"{self.calibration_share:.1%} of the {self.calibration_inputs:,} calibration inputs"
        )
        alpha = format_number(self.alpha)
        if self.same:
            return (
                f"These are the calibration inputs: all {self.inputs:,} average scores are as they were then, to the last digit. "
                f"That says nothing of new inputs; certify those, and compare them."
            )
        if self.drifted:
            return (
                f"Drift: {seen} (p = {_p_shown(self.p_value)}, a false alarm with probability at most {alpha}). The guarantee holds for "
                f"inputs like the calibration inputs only: calibrate again with labelled inputs of today."
            )
        return (
            f"No drift found: {seen}, which may be chance (p = {_p_shown(self.p_value)}, above {alpha}). This does not show that "
            f"the inputs are alike."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"drifted": self.drifted, "said": str(self), **asdict(self)}


def drift_test(calibration: ArrayLike, new: ArrayLike, *, alpha: float) -> Drift:
    """Compare average scores of new inputs with those of the calibration inputs.

    Guarantee:
        The result's.
    """
    level = check_share("alpha", alpha)
    old, found = np.asarray(calibration, dtype=np.float64), check_scores(new)
    m, n = len(old), len(found)
    if _smallest_p(m, n) > level:
        raise InvalidInput(
            f"{n} new inputs are too few to find drift at alpha = {level:g} beside {m} calibration inputs, however different they "
            f"are: collect at least {fewest(lambda count: _smallest_p(m, count) <= level):,}"
        )
    common = math.gcd(m, n)
    if (m // common) * (n // common) >= _MOST_PATHS:
        raise InvalidInput(f"{n:,} new inputs are more than can be compared exactly with {m:,}; check them in parts")
    result = scipy.stats.ks_2samp(old, found, method="exact")
    at = float(result.statistic_location)
    return Drift(
        calibration_inputs=m,
        inputs=n,
        alpha=level,
        p_value=min(1.0, float(result.pvalue) * (1 + _ROOM)),
        score=at,
        calibration_share=float(np.mean(old <= at)),
        share=float(np.mean(found <= at)),
        same=bool(np.array_equal(np.sort(old), np.sort(found))) and np.unique(found).size >= _TELLING,
    )


@final
class DriftWatch:
    """Tests each next ``every`` scores for drift; ``found`` is the last result.

    How many are tested is fixed beforehand, as the test requires.
    """

    def __init__(self, calibration: ArrayLike, every: int, *, alpha: float = 0.01) -> None:
        self._calibration, self._every, self._alpha = calibration, check_count("drift_every", every), alpha
        self._scores: list[float] = []
        self.found: Drift | None = None
        drift_test(calibration, np.zeros(every), alpha=alpha)  # numbers that cannot be compared are refused now

    def add(self, score: float) -> None:
        """Take in the score of one more input."""
        self._scores.append(score)
        if len(self._scores) == self._every:
            new, self._scores = self._scores, []
            self.found = drift_test(self._calibration, new, alpha=self._alpha)
            _log.log(logging.WARNING if self.found.drifted else logging.INFO, "%s", self.found)


def check_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Average scores as an array of numbers from 0 to 1."""
    found = check_numbers("scores", scores, InvalidInput)
    if found.ndim != 1 or found.size == 0 or not ((found >= 0) & (found <= 1)).all():
        raise InvalidInput(
            f"scores must be one or more average scores from 0 to 1, one for each new input, got an array of shape {found.shape}"
        )
    return found


def _smallest_p(m: int, n: int) -> float:
    """The p-value of samples that do not overlap: 2 of the orders of m + n values are as extreme."""
    log_orders = -betaln(m + 1, n + 1) - math.log(m + n + 1)
    return min(1.0, 2 * math.exp(-log_orders))


def _p_shown(p: float) -> str:
    return ceil_decimals(p, 3) if p >= 0.001 else f"{p:.1g}"
