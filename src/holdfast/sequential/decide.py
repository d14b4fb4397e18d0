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

from holdfast.bounds.tangent import FARTHEST, BettingRound, Pilot, TangentFamily, joined, summarise
from holdfast.errors import InvalidInput
from holdfast.noise import Noise, as_noise
from holdfast.scores import Exceedances, Scores, ScoreSamples
from holdfast.scores.rounding import format_number
from holdfast.validation import check_alpha, check_count, check_radius, check_support, check_threshold

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
    known = as_noise(noise, sigma)
    check_support(support)

    def fresh(n: int) -> Scores:
        values = np.asarray(draw(n), dtype=np.float64)
        if values.shape != (n,):
            raise InvalidInput(f"draw({n}) must return {n} scores in one dimension, got shape {values.shape}")
        return ScoreSamples(values, support=support, noise=known)

    test = SequentialTest(at_least=at_least, radius=radius, noise=known, support=support, alpha=alpha, n_max=n_max)
    while test.decision is None:
        test.update(fresh(test.next_batch))
    return test.decision


class SequentialTest:
    """A sequential test of one question: says how many more samples it needs, and takes them.

    Several can be asked at once, each with its own samples, so that a device is never idle because some stop early.
    """

    def __init__(
        self, *, at_least: float, radius: float, noise: Noise, support: tuple[float, float], alpha: float, n_max: int
    ) -> None:
        check_alpha(alpha)
        radius = check_radius(radius)
        self._n_max = check_count("n_max", n_max, at_least=2)
        at_least, a = check_threshold(at_least, support), support[0]
        self._at_least, self._radius, self._alpha, self._bottom = at_least, radius, alpha, a
        self._claim = f"the average is at least {format_number(at_least)} within radius {format_number(radius)}"
        goal = math.log(1 / alpha) + 1e-9
        self._wealth = _WealthProcess(noise=noise, radius=radius, target=at_least - a, goal=goal, n_max=n_max)
        self.drawn = 0
        self.decision: Decision | None = None
        highest = a + (support[1] - a) * float(noise.least_probability(1.0, radius))
        if radius > FARTHEST * noise.scale or highest < at_least:
            self._decide(False, f"not certified: radius {format_number(radius)} is beyond what samples can reach")

    @property
    def n_max(self) -> int:
        """Samples after which it gives up."""
        return self._n_max

    @property
    def progress(self) -> float:
        """How much of the evidence needed is there, from 0 to 1; it may fall again, and certifies nothing before it is 1."""
        return self._wealth.progress

    @property
    def next_batch(self) -> int:
        """The size of the next block; none once it is decided."""
        if self.decision is not None:
            return 0
        return min(max(int(_GROWTH * self.drawn), min(_PILOT, self._n_max // 2)), self._n_max - self.drawn)

    def update(self, scores: Scores) -> None:
        """Play the next block, and decide if that settles it."""
        block = scores.survival_lower()
        self.drawn += block.n
        self._wealth.play(block)
        if self._wealth.won:
            sure = f"with probability at least 1 - {format_number(self._alpha)}"
            self._decide(True, f"certified after {self.drawn:,} samples: {self._claim}, {sure}")
        elif self.drawn >= self._n_max:
            self._decide(False, f"not certified: {self.drawn:,} samples did not suffice to show that {self._claim}")
        else:
            forecast = self._wealth.forecast()
            if forecast.best < self._wealth.target:
                heading = f"{self._bottom + forecast.expected:.3f}, below {format_number(self._at_least)}"
                self._decide(False, f"not certified: gave up after {self.drawn:,} samples, heading for about {heading}")

    def _decide(self, certified: bool, reason: str) -> None:
        self.decision = Decision(certified, self.drawn, self._n_max, self._at_least, self._radius, self._alpha, reason)


@dataclass(frozen=True)
class _Forecast:
    """What a full run would come to: its expected bound, and the best that is still likely."""

    expected: float
    best: float


@dataclass
class _WealthProcess:
    """The gambler's two accounts: one bets boldly on what she guesses, one as a full run would."""

    noise: Noise
    radius: float
    target: float
    goal: float
    n_max: int
    _past: Exceedances | None = None
    _tangents: TangentFamily | None = None
    _bold: float = math.log(0.5)
    _patient: float = math.log(0.5)

    @property
    def won(self) -> bool:
        """Whether the accounts together have reached ``1 / alpha``."""
        return bool(np.logaddexp(self._bold, self._patient) >= self.goal)

    @property
    def progress(self) -> float:
        """The logarithm of the wealth, as a part of what is needed."""
        return min(1.0, max(0.0, float(np.logaddexp(self._bold, self._patient)) / self.goal))

    def play(self, block: Exceedances) -> None:
        """Bet on a block, with tangents and stakes chosen from the blocks before it; the first is only looked at."""
        past, tangents = self._past, self._tangents
        if past is not None and tangents:
            seen = summarise(block, tangents.edges)
            # Bold: the tangent and the stake of fastest growth, with the edge shrunk by what the guess may be off.
            edge = tangents.constants + tangents.means - self.target - np.sqrt(tangents.variances / past.n)
            best = int(np.argmax(edge / np.sqrt(tangents.variances)))
            if edge[best] > 0:
                stake = float(edge[best] / (tangents.variances[best] + edge[best] ** 2))
                self._bold += self._growth(tangents.play(best, seen, stake))
            # Patient: what a certificate from all n_max samples would choose.
            best = int(np.argmax(tangents.foreseen(self.goal, self.n_max)))
            stake = math.sqrt(2 * self.goal / (self.n_max * tangents.variances[best]))
            self._patient += self._growth(tangents.play(best, seen, stake))
        self._past = block if past is None else joined([past, block])
        self._tangents = TangentFamily.at(Pilot.of(self._past), self.noise, self.radius)

    def _growth(self, wager: BettingRound) -> float:
        """What a block adds to the logarithm of an account; a hypothesis no sample could contradict wins nothing."""
        return wager.log_wealth(min(self.target, wager.constant + wager.most))

    def forecast(self) -> _Forecast:
        """Where a full run is heading, judged from everything seen."""
        past, tangents = self._past, self._tangents
        assert past is not None
        assert tangents is not None
        if not tangents:
            return _Forecast(0.0, 0.0)
        full = np.sqrt(2 * tangents.variances * self.goal / self.n_max)
        expected = tangents.constants + tangents.means - full
        best = int(np.argmax(expected))
        doubt = _SURE * math.sqrt(tangents.variances[best] / past.n) + tangents.most[best] / past.n
        return _Forecast(float(expected[best]), float(expected[best]) + doubt)
