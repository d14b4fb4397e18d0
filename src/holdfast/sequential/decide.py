"""Early stopping: draw only as many samples as the question needs.

The question is fixed beforehand: is the average score at least c at every point within the radius? A gambler bets against
"no". She plays tangents (:mod:`holdfast.bounds.tangent`) in blocks, each with a guess from the blocks before, and her wealth
is a supermartingale if the answer is no: she may look after every block, and stop whenever she likes, without dividing
alpha among the looks. Giving up is always sound, so when to give up may be decided by any estimate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.bounds.tangent import FARTHEST, Pilot, TangentFamily, joined, summarise
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.noise import Noise, as_noise
from holdfast.notebook import Bar, card
from holdfast.scores import Exceedances, Scores, ScoreSamples
from holdfast.scores.rounding import format_number
from holdfast.validation import check_alpha, check_copies, check_radius, check_support, check_threshold

_PILOT = 250
_GROWTH = 0.1
_SURE = 1.0


@dataclass(frozen=True)
class Decision:
    """Whether "the average score is at least ``at_least`` within ``radius``" is certified, and what it cost.

    Guarantee:
        If the statement is false, ``certified`` is True with probability at most ``alpha``, although the number of samples
        was chosen by looking at them. For a network, the claim is about the class ``predicted``.
    Requires:
        The question, ``at_least`` and ``radius``, was fixed without looking at these samples.
    """

    certified: bool
    samples: int
    n_max: int
    at_least: float
    radius: float
    alpha: float
    reason: str
    predicted: int | None = None
    seed: int | None = None

    @property
    def saved(self) -> int:
        """Samples of the full run that were not needed."""
        return self.n_max - self.samples

    def __str__(self) -> str:
        return self.reason

    def _repr_html_(self) -> str:
        return card(str(self), Bar(f"{self.samples:,} of at most {self.n_max:,} samples", self.samples, self.n_max))


def decide(
    draw: Callable[[int], ArrayLike],
    *,
    at_least: float,
    radius: float,
    sigma: float | None = None,
    noise: Noise | None = None,
    support: tuple[float, float] = (0.0, 1.0),
    alpha: float = 1e-3,
    n_max: int = 100_000,
) -> Decision:
    """Decide from any source of scores: ``draw(n)`` returns n fresh ones. ``sigma=s`` is short for ``noise=Gaussian(s)``.

    Guarantee:
        The decision's.
    Requires:
        Independent scores from one distribution.
    """
    if not callable(draw):
        raise InvalidArgument(f"draw must be a function from a number n to n fresh scores, got {draw!r}")
    test = SequentialTest(
        at_least=at_least,
        radius=radius,
        noise=as_noise(noise, sigma),
        support=check_support(support),
        alpha=alpha,
        n_max=n_max,
    )
    while test.decision is None:
        n = test.next_batch
        scores = ScoreSamples(draw(n), support=support, sigma=sigma, noise=noise)
        if scores.n != n:
            raise InvalidInput(f"draw({n}) must return {n} scores, got {scores.n}")
        test.update(scores)
    return test.decision


class SequentialTest:
    """A sequential test of one question: says how many more samples it needs, and takes them.

    The gambler has two accounts: one bets boldly on what she guesses, one as a full run would.

    Attributes:
        subject: what reasons are about, such as "the average score of class 3".
    """

    def __init__(
        self, *, at_least: float, radius: float, noise: Noise, support: tuple[float, float], alpha: float, n_max: int
    ) -> None:
        self.n_max = check_copies("n_max", n_max, at_least=2)
        self.drawn = 0
        self.subject = "the average"
        self.decision: Decision | None = None
        self._alpha, self._radius, self._noise = check_alpha(alpha), check_radius(radius), noise
        self._at_least, self._bottom = check_threshold(at_least, support), support[0]
        self._target, self._goal = self._at_least - self._bottom, math.log(1 / self._alpha) + 1e-9
        self._bold = self._patient = math.log(0.5)
        self._past: Exceedances | None = None
        self._tangents: TangentFamily | None = None
        highest = self._bottom + (support[1] - self._bottom) * float(noise.least_probability(1.0, self._radius))
        if self._radius > FARTHEST * noise.scale or highest < self._at_least:
            self._decide(False, f"not certified: radius {format_number(radius)} is beyond what samples can reach")

    @property
    def _claim(self) -> str:
        return f"{self.subject} is at least {format_number(self._at_least)} within radius {format_number(self._radius)}"

    @property
    def progress(self) -> float:
        """How much of the evidence needed is there, from 0 to 1; it may fall again, and certifies nothing before it is 1."""
        return min(1.0, max(0.0, self._log_wealth / self._goal))

    @property
    def next_batch(self) -> int:
        """The size of the next block; none once it is decided."""
        if self.decision is not None:
            return 0
        return min(max(int(_GROWTH * self.drawn), min(_PILOT, self.n_max // 2)), self.n_max - self.drawn)

    def update(self, scores: Scores) -> None:
        """Play the next block, and decide if that settles it."""
        block = scores.survival_lower()
        if self._past is not None and self._tangents:
            self._bet(block, self._past.n, self._tangents)
        self._past = block if self._past is None else joined([self._past, block])
        self._tangents = TangentFamily.at(Pilot.of(self._past), self._noise, self._radius)
        self.drawn = self._past.n
        if self._log_wealth >= self._goal:
            sure = f"with probability at least 1 - {format_number(self._alpha)}"
            self._decide(True, f"certified after {self.drawn:,} samples: {self._claim}, {sure}")
        elif self.drawn >= self.n_max:
            self._decide(False, f"not certified: {self.drawn:,} samples did not suffice to show that {self._claim}")
        else:
            expected, best = self._forecast(self._tangents)
            if best < self._target:
                heading = f"is heading for about {self._bottom + expected:.3f}, below {format_number(self._at_least)}"
                where = f"the bound on {self.subject} within radius {format_number(self._radius)}"
                self._decide(False, f"not certified: gave up after {self.drawn:,} samples, {where} {heading}")

    @property
    def _log_wealth(self) -> float:
        """Of both accounts together: it reaches ``log(1 / alpha)`` with probability at most alpha if the answer is no."""
        return float(np.logaddexp(self._bold, self._patient))

    def _bet(self, block: Exceedances, past: int, tangents: TangentFamily) -> None:
        """Bet on a block, with tangents and stakes chosen from the ``past`` samples before it."""
        seen = summarise(block, tangents.edges)
        # Bold: the tangent and the stake of fastest growth, with the edge shrunk by what the guess may be off.
        edge = tangents.constants + tangents.means - self._target - np.sqrt(tangents.variances / past)
        best = int(np.argmax(edge / np.sqrt(tangents.variances)))
        if edge[best] > 0:
            stake = float(edge[best] / (tangents.variances[best] + edge[best] ** 2))
            self._bold += float(tangents.payoff(best, seen).played(stake).log_wealth(self._target))
        # Patient: what a certificate from all n_max samples would choose.
        best = int(np.argmax(tangents.foreseen(self._goal, self.n_max)))
        stake = math.sqrt(2 * self._goal / (self.n_max * tangents.variances[best]))
        self._patient += float(tangents.payoff(best, seen).played(stake).log_wealth(self._target))

    def _forecast(self, tangents: TangentFamily) -> tuple[float, float]:
        """What a full run would come to, judged from everything seen: its expected bound, and the best still likely."""
        if not tangents:
            return 0.0, 0.0
        expected = tangents.constants + tangents.means - np.sqrt(2 * tangents.variances * self._goal / self.n_max)
        best = int(np.argmax(expected))
        doubt = _SURE * math.sqrt(tangents.variances[best] / self.drawn) + tangents.most[best] / self.drawn
        return float(expected[best]), float(expected[best]) + doubt

    def _decide(self, certified: bool, reason: str) -> None:
        self.decision = Decision(certified, self.drawn, self.n_max, self._at_least, self._radius, self._alpha, reason)
