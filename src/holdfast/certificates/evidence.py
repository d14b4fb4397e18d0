"""What sampling leaves behind: counts that merge, and from which any certificate can be computed again.

Selection and estimation are different types, so that the copies a class was chosen from cannot end up in its bound.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument
from holdfast.scores import ScoreHistogram
from holdfast.validation import check_count

SCORE_UNIT = 2**40
"""Scores are added up as whole multiples of 2^-40, so that sums do not depend on the order of the batches."""

SCORES, MARGINS = (0.0, 1.0), (-1.0, 1.0)
"""The ranges of a prediction score and of a margin."""

MOST_SELECTION = 2**22
"""More selection copies than this could overflow the sums."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Sums of each class's score over ``n0`` noisy copies, in units of ``1 / SCORE_UNIT``; used to choose the class only."""

    n0: int
    sums: NDArray[np.int64]

    def __post_init__(self) -> None:
        sums = np.array(self.sums, dtype=np.int64, copy=True)
        sums.flags.writeable = False
        object.__setattr__(self, "sums", sums)

    @property
    def predicted(self) -> int:
        """The class with the largest average score (the paper's prediction rule); the first, if several are equal."""
        return int(np.argmax(self.sums))

    @property
    def averages(self) -> NDArray[np.float64]:
        """Average score of each class over the selection copies: an estimate, certified by nothing."""
        return self.sums / (self.n0 * float(SCORE_UNIT))

    def __add__(self, other: "Selection") -> "Selection":
        return Selection(self.n0 + other.n0, self.sums + other.sums)


@dataclass(frozen=True)
class Evidence:
    """Votes and score histograms of one class over ``n`` fresh noisy copies: one pass for label, score and margin."""

    n: int
    votes: int
    score: ScoreHistogram
    margin: ScoreHistogram

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("votes", self.votes, at_least=0)
        if not self.n == self.score.n == self.margin.n or not 0 <= self.votes <= self.n:
            raise InvalidArgument(
                f"evidence must count the same n copies everywhere, got n = {self.n}, votes = {self.votes}, "
                f"{self.score.n} scores and {self.margin.n} margins"
            )
        if self.score.sigma != self.margin.sigma:
            raise InvalidArgument(
                f"evidence must come from one noise: score and margin must have the same sigma, got {self.score.sigma!r} and "
                f"{self.margin.sigma!r}"
            )
        if self.score.support != SCORES or self.margin.support != MARGINS:
            raise InvalidArgument(
                f"the score must have the support {SCORES} and the margin {MARGINS}, got {self.score.support} and "
                f"{self.margin.support}"
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise the copies were made with."""
        return self.score.sigma

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            self.n + other.n, self.votes + other.votes, self.score + other.score, self.margin + other.margin
        )

    def coarser(self, bins: int) -> "Evidence":
        """The same copies with their scores counted on a coarser grid: still valid, smaller, a little looser."""
        return Evidence(self.n, self.votes, self.score.coarser(bins), self.margin.coarser(bins))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {"n": self.n, "votes": self.votes, "score": self.score.to_dict(), "margin": self.margin.to_dict()}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`."""
        return cls(
            n=d["n"],
            votes=d["votes"],
            score=ScoreHistogram.from_dict(d["score"]),
            margin=ScoreHistogram.from_dict(d["margin"]),
        )
