"""STaR bets: against a mean, with a known number of samples still to come.

A gambler who must have ``1/alpha`` when the samples end, and not before, bets as a bank hedges an option that pays ``1/alpha`` if the
final sum is large enough. With wealth W, ``left`` samples to come and S the expected square of ``y - theta``, that option is worth W
at the normal quantile ``z = Phi^-1(alpha W)``, and its hedge is ``phi(z) / (Phi(z) sqrt(left S))``: bold when she is behind,
nothing once she has enough. Constant bets, which do not know the end, lose a sixth more.

A bet may depend on theta and on the samples before it. Wealth then need not fall as theta rises. So theta's range is cut
into cells, as early samples suggest, and the same bets are made for all theta in a cell: within it wealth does fall.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from holdfast.means.rounds import BettingRound, Payoff, largest_refuted, needed_wealth

_PILOT, _MOST_PILOT, _TAIL, _LEAST_PILOT = 0.015, 0.05, 500, 20
"""A share of all samples; it may be the larger one until there are enough to guess a tail from."""
_BLOCKS, _LEAST_BLOCK, _HASTE = 64, 25, 1.5
_PART = 0.1
_CELL, _REACH, _MARGIN, _MOST_CELLS = 0.15, 4.0, 2.0, 400


def block_sizes(n: int) -> list[int]:
    """A pilot, from which a tail can be guessed, then at most 64 blocks that become shorter towards the end, where bets change most."""
    tail = min(_TAIL, int(_MOST_PILOT * n))
    pilot = min(max(int(_PILOT * n), tail, min(_LEAST_PILOT, n // 2)), n - 1)
    count = min(_BLOCKS, max(1, (n - pilot) // _LEAST_BLOCK))
    rest = (n - pilot) * (1 - np.linspace(0, 1, count + 1)) ** _HASTE
    ends = np.unique(n - np.round(rest).astype(np.int64))
    return [pilot, *(int(size) for size in np.diff(ends))]


@dataclass(eq=False)
class StarGame:
    """Bets on one block after the other, for every theta in [0, ``highest``] at once.

    Guarantee:
        :meth:`refuted` is above theta with probability at most ``alpha`` if the mean of every payoff, given all
        that came before, is at most theta less its constant.
    Requires:
        Payoffs are offered in the order of their samples, and each is made of what came before it, except for its samples.
    Source:
        V. Voracek, "STaR-Bets: Sequential Target-Recalculating Bets for Tighter Confidence Intervals", arXiv 2505.22422.
        Departures: the normal hedge instead of its limit ``sqrt(2 ln(1 / (alpha W)) / (left S))``, constant within blocks; cells
        instead of a grid of theta. For the theta in question every bet depends on earlier samples only, the cell it is in
        included, so the wealth against it is a nonnegative supermartingale, and 1/alpha is reached with probability at most
        alpha. Whatever is reported above theta has refuted theta, since everything below it is refuted.
    """

    n: int
    seen: int
    alpha: float
    highest: float

    def __post_init__(self) -> None:
        self._needed = needed_wealth(self.alpha)
        self._left = self.n - self.seen
        self._rounds: list[BettingRound] = []
        self._tops: NDArray[np.float64] | None = None
        self._wealth: NDArray[np.float64] = np.zeros(1)

    def play(self, payoff: Payoff) -> None:
        """Bet on a block."""
        last = payoff.n >= self._left
        if self._tops is None and (self.n - self._left >= _PART * self.n or last):
            self._tops = self._cells(payoff)
            self._wealth = np.zeros(len(self._tops))
            for each in self._rounds:
                self._wealth += each.log_wealth(self._tops)
        if self._tops is None:
            stake: float | NDArray[np.float64] = math.sqrt(
                2 * self._needed / ((self.n - self.seen) * float(payoff.variance))
            )
        else:
            stake = self._hedge(payoff, self._tops)
        played = payoff.played(stake)
        if self._tops is not None:
            self._wealth = self._wealth + played.log_wealth(self._tops)
        self._rounds.append(played)
        self._left -= payoff.n

    def skip(self, samples: int) -> None:
        """Let a block go by."""
        self._left -= samples

    @property
    def refuted(self) -> float:
        """The largest theta below which every other is refuted, too; 0 if there is none."""
        if self._tops is None:
            return 0.0
        whole = self._wealth >= self._needed
        if whole.all():
            return float(self._tops[-1])
        first = int(np.argmin(whole))
        below = float(self._tops[first - 1]) if first else 0.0
        return max(
            below,
            float(largest_refuted([each.of(first) for each in self._rounds], self._needed, self._tops[first])),
        )

    def _cells(self, payoff: Payoff) -> NDArray[np.float64]:
        """The upper ends of cells: fine where the bound is expected, as far as early samples may be wrong about that."""
        variance = float(payoff.variance)
        drawn, error = self.n - self._left, math.sqrt(variance / (self.n - self.seen))
        reach = _REACH * math.sqrt(variance * (1 / max(drawn, 1) - 1 / self.n)) + _MARGIN * error
        expected = float(payoff.constant + payoff.mean) + float(ndtri(self.alpha)) * error
        count = min(max(int(2 * reach / (_CELL * error)), 2), _MOST_CELLS)
        tops = np.clip(np.linspace(expected - reach, expected + reach, count), 0.0, self.highest)
        return np.append(np.unique(tops[tops < self.highest]), self.highest)

    def _hedge(self, payoff: Payoff, tops: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each cell bets, from its wealth at its upper end."""
        share = np.exp(np.clip(self._wealth - self._needed, -600.0, 0.0))
        square = payoff.variance + (payoff.mean - np.minimum(tops - payoff.constant, payoff.most)) ** 2
        density = np.exp(-(ndtri(share) ** 2) / 2) / math.sqrt(2 * math.pi)
        return np.asarray(density / (share * np.sqrt(self._left * square)))
