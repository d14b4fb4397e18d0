"""A certified radius that stops sampling when it is near the best possible."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.bands import Empirical
from holdfast.bounds import CDF, bound
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.notebook import Bar, card
from holdfast.scores import ScoreHistogram, Scores
from holdfast.scores.rounding import floor_decimals, format_number
from holdfast.validation import check_alpha, check_copies, check_number, check_threshold

_FIRST_LOOK = 500


@dataclass(frozen=True)
class AdaptiveRadius:
    """The radius within which the average score is certified to be at least ``at_least``.

    Guarantee:
        With probability at least ``1 - alpha`` a claim that is ``certified`` holds, although the number of samples was
        chosen by looking at them: alpha is divided equally among the looks that were planned. For a network, the claim is
        about the class ``predicted``.

    Attributes:
        estimate: the radius that samples like these would give without sampling error, or ``n_max`` samples in full
            agreement if that is less; certified by nothing.
        certified: whether the claim is certified at the input itself; if not, the radius is 0.
    """

    radius: float
    estimate: float
    within: float
    samples: int
    n_max: int
    at_least: float
    alpha: float
    certified: bool
    predicted: int | None = None
    seed: int | None = None

    @property
    def settled(self) -> bool:
        """Whether the claim is certified, and the radius came within the tolerance of the estimate."""
        return self.certified and self.radius >= self.estimate - self.within

    @property
    def saved(self) -> int:
        """Samples of the full run that were not needed."""
        return self.n_max - self.samples

    def __str__(self) -> str:
        claim = f"the average is at least {format_number(self.at_least)}"
        if not self.certified:
            return f"not certified at the input itself: {self.samples:,} samples did not show that {claim}"
        sure = f"with probability at least 1 - {format_number(self.alpha)}"
        where = (
            f"within radius {floor_decimals(self.radius, 4)}"
            if self.radius > 0
            else "at the input itself, and no further"
        )
        return f"certified after {self.samples:,} samples: {claim} {where}, {sure}"

    def _repr_html_(self) -> str:
        words = f"radius {floor_decimals(self.radius, 4)}; without sampling error about {self.estimate:.4f}"
        return card(str(self), Bar(words, self.radius, self.estimate))


class RadiusSearch:
    """Looks at 500, 1,000, 2,000, ... samples until the certified radius is within ``within`` of the estimated one.

    It says how many more samples it wants, and takes all that were drawn so far.

    Guarantee:
        The result's. When to stop needs no alpha, since only the certified radius is claimed, at every look.
    """

    def __init__(self, *, at_least: float, within: float, alpha: float, n_max: int) -> None:
        self.n_max = check_copies("n_max", n_max, at_least=2)
        self.drawn = 0
        self.result: AdaptiveRadius | None = None
        self._alpha, self._at_least = check_alpha(alpha), check_number("at_least", at_least)
        self._within = check_number("within", within)
        if self._within <= 0:
            raise InvalidArgument(f"within must be a positive tolerance in the units of the input, got {within!r}")
        doublings = ((self.n_max - 1) // _FIRST_LOOK).bit_length()  # until n_max is reached
        self._share = self._alpha / (1 + doublings)
        self._most: float | None = None

    @property
    def next_batch(self) -> int:
        """How many further samples it wants; none once it is done."""
        if self.result is not None:
            return 0
        return min(self.drawn or _FIRST_LOOK, self.n_max - self.drawn)

    def update(self, scores: Scores) -> None:
        """Look at all samples drawn so far, those of earlier looks included."""
        look = self.drawn + self.next_batch
        if self.result is not None or scores.n != look:
            raise InvalidInput(f"expected the first {look} scores of one stream, got {scores.n}")
        self.drawn = look
        at_least = check_threshold(self._at_least, scores.support)
        if self._most is None:
            unanimous = ScoreHistogram([0, 0, self.n_max], support=scores.support, noise=scores.noise)
            self._most = bound(unanimous, alpha=self._share).radius(at_least=at_least)
        curve = bound(scores, alpha=self._share)
        radius = curve.radius(at_least=at_least)
        exact = bound(scores, alpha=0.5, method=CDF(band=Empirical())).radius(at_least=at_least)
        estimate = min(exact, self._most)
        if radius >= estimate - self._within or look == self.n_max:
            self.result = AdaptiveRadius(
                radius=radius,
                estimate=estimate,
                within=self._within,
                samples=look,
                n_max=self.n_max,
                at_least=at_least,
                alpha=self._alpha,
                certified=curve.lower(0.0) >= at_least,
            )


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
        search.update(first(search.drawn + search.next_batch))
    return search.result
