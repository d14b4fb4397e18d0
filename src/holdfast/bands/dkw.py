"""The Dvoretzky-Kiefer-Wolfowitz band: what the paper uses."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.bands.band import Band
from holdfast.scores.rounding import probability_down
from holdfast.validation import Sides, per_side


@dataclass(frozen=True)
class DKW(Band):
    """A band of constant width ``eps = sqrt(ln(1/alpha) / (2 n))`` below the empirical survival function.

    Guarantee:
        With probability at least ``1 - alpha``, ``p(s) >= p_n(s) - eps`` for every s. With both sides asked for, each is
        taken at ``alpha / 2``, which is the two-sided ``sqrt(ln(2/alpha) / (2 n))`` of the paper's text.
    Requires:
        Independent samples; ``alpha <= 1/2`` (Massart's condition for the one-sided inequality). Any distribution: atoms
        and ties included.
    Source:
        Kumar et al. 2020, section 3.2; P. Massart, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality",
        Annals of Probability 18 (1990), for the constant and for one side.
    """

    name = "dkw"

    def epsilon(self, n: int, alpha: float) -> float:
        """The width of the one-sided band."""
        return math.sqrt(math.log(1 / alpha) / (2 * n))

    def lower(self, counts: NDArray[np.int64], n: int, alpha: float, sides: Sides = "lower") -> NDArray[np.float64]:
        """``counts / n - eps``, and never below zero."""
        return probability_down(counts / n - self.epsilon(n, per_side(alpha, sides)))
