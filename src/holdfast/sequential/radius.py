"""A certified radius that stops sampling when it is near the best possible."""

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


class RadiusSearch:
    """Looks at 500, 1,000, 2,000, ... samples until the certified radius is within ``within`` of the estimated one.

    It says how many more samples it wants, and takes all that were drawn so far.

    Guarantee:
        The result's. When to stop needs no alpha, since only the certified radius is claimed, at every look.
    """

    def __init__(self, *, at_least: float, within: float, alpha: float, n_max: int) -> None:
        self._alpha, self._n_max = check_alpha(alpha), check_count("n_max", n_max, at_least=2)
        self._at_least = check_number("at_least", at_least)
        self._within = check_number("within", within)
        if self._within <= 0:
            raise InvalidArgument(f"within must be a positive tolerance in the units of the input, got {within!r}")
        doublings = max(0, math.ceil(math.log2(n_max / _FIRST_LOOK)))
        self._looks = [min(_FIRST_LOOK * 2**k, n_max) for k in range(doublings + 1)]
        self._share = self._alpha / len(self._looks)
        self._taken = 0
        self._most: float | None = None
        self.drawn = 0
        self.result: AdaptiveRadius | None = None

    @property
    def n_max(self) -> int:
        """Samples after which it stops in any case."""
        return self._n_max

    @property
    def next_batch(self) -> int:
        """How many further samples it wants; none once it is done."""
        return 0 if self.result is not None else self._looks[self._taken] - self.drawn

    def update(self, scores: Scores) -> None:
        """Look at all samples drawn so far, those of earlier looks included."""
        look = self.drawn + self.next_batch
        if self.result is not None or scores.n != look:
            raise InvalidInput(f"expected the first {look} scores of one stream, got {scores.n}")
        self._taken, self.drawn = self._taken + 1, look
        at_least = check_threshold(self._at_least, scores.support)
        if self._most is None:
            unanimous = ScoreSamples(
                np.full(self._n_max, scores.support[1]), support=scores.support, noise=scores.noise
            )
            self._most = bound(unanimous, alpha=self._share).radius(at_least=at_least)
        estimate = bound(scores, alpha=0.5, method=CDF(band=Empirical())).radius(at_least=at_least)
        found = AdaptiveRadius(
            radius=bound(scores, alpha=self._share).radius(at_least=at_least),
            estimate=min(estimate, self._most),
            within=self._within,
            samples=look,
            n_max=self._n_max,
            at_least=at_least,
            alpha=self._alpha,
        )
        if found.settled or self._taken == len(self._looks):
            self.result = found


def adaptive_radius(
    first: Callable[[int], Scores], *, at_least: float, within: float, alpha: float, n_max: int
) -> AdaptiveRadius:
    """Find a radius with as few samples as :class:`RadiusSearch` needs.

    ``first(n)`` returns the first n samples of one fixed stream: a later look contains the earlier ones.

    Guarantee:
        The result's.
    """
    search = RadiusSearch(at_least=at_least, within=within, alpha=alpha, n_max=n_max)
    while search.result is None:
        n = search.drawn + search.next_batch
        scores = first(n)
        if scores.n != n:
            raise InvalidInput(f"first({n}) must return the first {n} scores, got {scores.n}")
        search.update(scores)
    return search.result
