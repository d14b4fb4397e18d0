"""The counts that sampling returns, and where they come from: they add, and any certificate can be computed from them again.

Selection and estimation are different types, so that the copies a class was chosen from cannot end up in its bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument, InvalidInput, NotClaimed
from holdfast.measures import DEFAULT_MEASURES, SUM_TOLERANCE_0_1_0, Margin, MeasureInfo, PredictionScore, votes_within
from holdfast.noise import Noise, sampled_noise
from holdfast.scores import OccupiedCounters, RandomOrder, ScoreHistogram
from holdfast.validation import check_count, check_number

SCORE_UNIT = 2**40
"""Scores are added up as whole multiples of 2^-40, so that sums do not depend on the order of the batches."""

MOST_SELECTION = 2**22
"""More selection copies than this could overflow the sums."""

MEASURES_0_1_0 = (replace(PredictionScore().info, winning=(1 + SUM_TOLERANCE_0_1_0) / 2), Margin().info)
"""What Holdfast 0.1.0 counted. Its copies were checked less closely, so that the score wins a little later."""

_USUAL = (*(measure.info for measure in DEFAULT_MEASURES), *MEASURES_0_1_0)


@dataclass(frozen=True)
class Provenance:
    """Where the noisy copies came from; with the same seed, index and model they can be drawn again.

    Attributes:
        step: of the grid that the classifier rounds its input to; 0.0 for the float32 noise of Holdfast 0.1.0.
        shift: how far the input was from the grid, in the norm of the noise; every radius is reduced by it.
        units: what radii are in, where the features were divided by scales of their own.
    """

    seed: int
    index: int
    noise: str
    model: str
    device: str
    precision: str
    version: str
    seconds: float = field(compare=False)
    compiled: bool = False
    step: float = 0.0
    shift: float = 0.0
    units: str = ""

    def __post_init__(self) -> None:
        check_number("step", self.step, at_least=0)
        check_number("shift", self.shift, at_least=0)
        if not isinstance(self.units, str):
            raise InvalidArgument(f"units must be words for what radii are in, got {self.units!r}")

    def seen(self, noise: Noise) -> Noise:
        """What the copies know of the noise around the input."""
        return sampled_noise(noise, self.step, self.shift)

    @property
    def order(self) -> RandomOrder:
        """The order of the copies for methods that need one: as likely as any other, and the same at every call."""
        return RandomOrder(self.seed, self.index)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the seed as hexadecimal text, since JSON numbers are too short for it.

        A step or shift of zero, and units that are the input's, are left out: readers of 0.1.0 knew none of them.
        """
        plain = {name: value for name, value in vars(self).items() if value or name not in ("step", "shift", "units")}
        return {**plain, "seed": f"{self.seed:#x}"}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Provenance":
        """The inverse of :meth:`to_dict`."""
        return cls(**{**d, "seed": int(d["seed"], 16)})


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
    """Votes of one class, and a histogram of each measure's scores, over ``n`` fresh noisy copies; counts add.

    ``evidence["score"]`` is the histogram of the measure of that name. What bounds a certificate is
    ``evidence["score"].under(provenance.seen(noise), provenance.order)``, which allows for the input's distance to the grid
    and for drawing.
    """

    n: int
    votes: int
    histograms: Mapping[MeasureInfo, ScoreHistogram]

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("votes", self.votes, at_least=0)
        if not self.histograms:
            raise InvalidArgument("evidence must have the histogram of at least one measure")
        object.__setattr__(self, "histograms", dict(self.histograms))
        counted = {info.name: histogram.n for info, histogram in self.histograms.items()}
        if len(counted) != len(self.histograms):
            raise InvalidArgument("evidence must have one histogram for each name of a measure")
        if set(counted.values()) != {self.n} or not 0 <= self.votes <= self.n:
            raise InvalidArgument(
                f"evidence must count the same n copies everywhere, got n = {self.n}, votes = {self.votes}, and "
                + ", ".join(f"{copies} of {name}" for name, copies in counted.items())
            )
        if len({histogram.noise for histogram in self.histograms.values()}) > 1:
            raise InvalidArgument("evidence must come from one noise, got histograms of several")
        for info, histogram in self.histograms.items():
            if histogram.support != info.support:
                raise InvalidArgument(f"the {info.name} must have the support {info.support}, got {histogram.support}")

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """What was counted."""
        return tuple(self.histograms)

    def measure(self, name: str) -> MeasureInfo:
        """The measure of that name."""
        for info in self.histograms:
            if info.name == name:
                return info
        known = ", ".join(info.name for info in self.histograms)
        raise NotClaimed(
            f"{name!r} was not counted on these noisy copies, only {known}; sample again with that measure"
        )

    def __getitem__(self, name: str) -> ScoreHistogram:
        return self.histograms[self.measure(name)]

    @property
    def noise(self) -> Noise:
        """The noise that the copies were made with."""
        return next(iter(self.histograms.values())).noise

    def __add__(self, other: "Evidence") -> "Evidence":
        if set(self.measures) != set(other.measures):
            raise InvalidArgument(
                f"evidence merges only with that of the same measures, got {', '.join(info.name for info in self.measures)} and "
                f"{', '.join(info.name for info in other.measures)}; count the same measures on all copies"
            )
        merged = {info: histogram + other.histograms[info] for info, histogram in self.histograms.items()}
        return Evidence(self.n + other.n, self.votes + other.votes, merged)

    def coarser(self, bins: int) -> "Evidence":
        """The same copies with their scores counted on a coarser grid: still valid, smaller, a little looser."""
        return Evidence(
            self.n, self.votes, {info: histogram.coarser(bins) for info, histogram in self.histograms.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON: each measure's histogram under its name."""
        return {
            "n": self.n,
            "votes": self.votes,
            "measures": [info.to_dict() for info in self.histograms],
            **{info.name: histogram.to_dict() for info, histogram in self.histograms.items()},
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; default measures must be described as here, or as 0.1.0 checked them."""
        measures = stored_measures(d.get("measures"))
        for info in measures:
            known = [(each.support, each.winning) for each in _USUAL if each.name == info.name]
            if known and (info.support, info.winning) not in known:
                raise InvalidInput(f"expected the support and winning average that every {info.name} has, got {info}")
        found = cls(d["n"], d["votes"], {info: ScoreHistogram.from_dict(d[info.name]) for info in measures})
        for info, histogram in found.histograms.items():
            within = possible_votes(info, histogram.compact())
            if within is not None and not within[0] <= found.votes <= within[1]:
                raise InvalidInput(
                    f"the votes do not fit the {info.name}s: expected {within[0]:,} to {within[1]:,} of {found.n:,}, got {found.votes:,}"
                )
        return found


def possible_votes(info: MeasureInfo, scores: OccupiedCounters) -> tuple[int, int] | None:
    """How few and how many votes fit the counts of a measure; None if it does not say."""
    grid, counters = scores.grid, scores.occupied
    return votes_within(info, grid.round_down(counters), grid.round_up(counters), scores.counts)


def stored_measures(described: list[dict[str, Any]] | None) -> tuple[MeasureInfo, ...]:
    """Measures as a file describes them; what Holdfast 0.1.0 wrote has no description."""
    if described is None:
        return MEASURES_0_1_0
    return tuple(MeasureInfo.from_dict(each) for each in described)


def claimable(measures: Iterable[MeasureInfo]) -> tuple[str, ...]:
    """What may be claimed of copies on which these measures were counted, in the usual order."""
    return ("label", *(info.name for info in measures))


def check_claims(claims: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the claims in the order of ``known``, if they are among them, different and at least one."""
    wanted = (claims,) if isinstance(claims, str) else tuple(claims)
    if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= set(known):
        raise InvalidArgument(f"claims must be one or more of {', '.join(known)}, each once, got {claims!r}")
    return tuple(claim for claim in known if claim in wanted)


def check_claimed(claim: str, claims: Sequence[str]) -> None:
    """Refuse to speak of what a certificate does not claim."""
    if claim not in claims:
        raise NotClaimed(
            f"this certificate does not claim {claim!r} (claims={claims!r}), and spent no alpha on it; certify with "
            f"claims=(..., {claim!r}), or recompute(claims=...) from the same samples where the certificate can"
        )
