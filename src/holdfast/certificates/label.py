"""Cohen et al.'s label certificate, from the votes that come free with the scores."""

import math
from dataclasses import dataclass

from scipy.special import betaincinv, ndtri

from holdfast.errors import InvalidArgument
from holdfast.scores.rounding import SLACK
from holdfast.validation import SMALLEST_SHARE, check_alpha, check_count


@dataclass(frozen=True)
class LabelCertificate:
    """``votes`` of ``n`` noisy copies went to the predicted class.

    Guarantee:
        With probability at least ``1 - alpha``, the class keeps more than half of the votes at every x' with
        ``|x' - x| < radius``; 0.0 if that is not certified even at x.
    Source:
        Cohen, Rosenfeld & Kolter 2019, Theorem 1 with ``p_B = 1 - p_A``; Clopper & Pearson 1934 for ``p_A``.
    """

    votes: int
    n: int
    sigma: float
    alpha: float

    def __post_init__(self) -> None:
        if not 0 <= self.votes <= self.n:
            raise InvalidArgument(f"votes must be between 0 and n = {self.n}, got {self.votes}")

    @property
    def probability(self) -> float:
        """The Clopper-Pearson lower bound on the class's share of votes, rounded down."""
        return clopper_pearson_lower(self.votes, self.n, self.alpha)

    @property
    def certified(self) -> bool:
        """Whether the class is certified to win the vote at x itself."""
        return self.probability > 0.5

    @property
    def radius(self) -> float:
        """``sigma Phi^-1(p_A)``, rounded down."""
        if not self.certified:
            return 0.0
        return max(0.0, self.sigma * float(ndtri(self.probability)) * (1 - SLACK))


def clopper_pearson_lower(successes: int, n: int, alpha: float) -> float:
    """A lower bound on a probability from ``successes`` of ``n`` trials, valid with probability at least ``1 - alpha``."""
    check_alpha(alpha, at_least=SMALLEST_SHARE)
    check_count("n", n)
    if successes <= 0:
        return 0.0
    if successes >= n:
        return float(math.exp(math.log(alpha) / n)) * (1 - SLACK)
    return float(betaincinv(successes, n - successes + 1, alpha)) * (1 - SLACK)
