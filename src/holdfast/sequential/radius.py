"""A certified radius from as few samples as bring it near to the best possible."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.bands import Empirical
from holdfast.bounds import CDF, bound
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.scores import Scores, ScoreSamples
from holdfast.validation import check_alpha, check_count, check_number, check_threshold

_FIRST_LOOK = 500


@dataclass(frozen=True)
class AdaptiveRadius:
    """The radius within which the average score is certified to be at least ``at_least``.

    Guarantee:
        With probability at least ``1 - alpha`` the claim holds, although the number of samples was chosen by looking at
        them: alpha is divided equally among the looks that were planned. ``estimate``, the radius that samples like these
        would give without sampling error (or ``n_max`` samples in full agreement, if that is less), is certified by
        nothing. For a network, the claim is about the class ``predicted``.
    """

    radius: float
    estimate: float
    within: float
    samples: int
    n_max: int
    at_least: float
    alpha: float
    predicted: int | None = None
    seed: int | None = None

    @property
    def settled(self) -> bool:
        """Whether the certified radius came within the tolerance of the estimate."""
        return self.radius >= self.estimate - self.within

    @property
    def saved(self) -> int:
        """Samples of the full run that were not needed."""
        return self.n_max - self.samples


def adaptive_radius(
    first: Callable[[int], Scores], *, at_least: float, within: float, alpha: float, n_max: int
) -> AdaptiveRadius:
    """Look at 500, 1,000, 2,000, ... samples until the certified radius is within ``within`` of the estimated one.

    ``first(n)`` returns the first n samples of one fixed stream: a later look contains the earlier ones.

    Guarantee:
        The result's. When to stop needs no alpha, since only the certified radius is claimed, at every look.
    """
    check_alpha(alpha)
    check_count("n_max", n_max, at_least=2)
    if not check_number("within", within) > 0:
        raise InvalidArgument(f"within must be a positive tolerance in the units of the input, got {within!r}")
    doublings = max(0, math.ceil(math.log2(n_max / _FIRST_LOOK)))
    looks = [min(_FIRST_LOOK * 2**k, n_max) for k in range(doublings + 1)]
    ceiling: float | None = None
    for look in looks:
        scores = first(look)
        if scores.n != look:
            raise InvalidInput(f"first({look}) must return the first {look} scores, got {scores.n}")
        check_threshold(at_least, scores.support)
        if ceiling is None:
            unanimous = ScoreSamples(np.full(n_max, scores.support[1]), support=scores.support, sigma=scores.sigma)
            ceiling = bound(unanimous, alpha=alpha / len(looks)).radius(at_least=at_least)
        estimate = bound(scores, alpha=0.5, method=CDF(band=Empirical())).radius(at_least=at_least)
        found = AdaptiveRadius(
            radius=bound(scores, alpha=alpha / len(looks)).radius(at_least=at_least),
            estimate=min(estimate, ceiling),
            within=within,
            samples=look,
            n_max=n_max,
            at_least=at_least,
            alpha=alpha,
        )
        if found.settled:
            break
    return found
