"""What a run claims of each input at a few radii, in a form that far fewer noisy copies can put to the test.

A certified value is as high as the run's n copies allow, and to reach it again takes about as many: where all scores are
one, no test of ``average >= c`` can succeed before ``p^m <= alpha``, with p the share of ones at which the bound is c. So
what is put to the test is what the run's own scores would have certified with fewer copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import bound
from holdfast.certificates.certificate import Certificate
from holdfast.errors import InvalidArgument
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.run import Run
from holdfast.validation import check_count, check_number, check_radii, per_side

_UNITS = 10_000
"""Claims are rounded down to four decimals: people read them, and what is left of some says nothing."""
_FEWEST = 250
_ROOM = 6
"""A test may draw so many times the copies that its claim supposes: nearly all need fewer than two times, a few need more."""


@dataclass(frozen=True)
class Claim:
    """The average of a measure for the class ``predicted`` is at least ``at_least`` within ``radius`` of input ``index``.

    ``certified`` is what the run certified there, with failure probability ``alpha``; it is not less than ``at_least``.
    """

    index: int
    predicted: int
    radius: float
    certified: float
    at_least: float
    alpha: float


@dataclass(frozen=True)
class ClaimsAsked:
    """Which claims of a run to put to the test.

    Attributes:
        radii: where.
        margin: what is subtracted from each, for a change that is tolerated.
        share: claims are what this share of the run's copies would have certified; 1 for what the run certified.
        measure: of which measure; None for the first that the run claims.
        most: about the first so many inputs of the run; None for all.
    """

    radii: Sequence[float] = (0.0, 0.25, 0.5)
    margin: float = 0.01
    share: float = 0.05
    measure: str | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        radii = np.atleast_1d(check_radii(self.radii))
        if radii.ndim != 1 or radii.size == 0:
            raise InvalidArgument(f"radii must be one or more numbers, such as (0.0, 0.25), got {self.radii!r}")
        object.__setattr__(self, "radii", tuple(dict.fromkeys(radii.tolist())))
        object.__setattr__(self, "margin", check_number("margin", self.margin, at_least=0.0))
        if not 0 < check_number("share", self.share) <= 1:
            raise InvalidArgument(f"share must be in (0, 1], a part of the run's noisy copies, got {self.share!r}")
        if self.most is not None:
            check_count("most", self.most)

    def supposed(self, n: int) -> int:
        """How many of a run's n copies the claims suppose: so few certify next to nothing below 250."""
        return max(int(self.share * n), min(_FEWEST, n))

    def most_copies(self, n: int) -> int:
        """How many copies a test may draw."""
        return min(n, _ROOM * self.supposed(n))


@dataclass(frozen=True)
class Claims:
    """The claims of a run, and how many were left out: of abstained certificates, and those that say nothing."""

    claims: tuple[Claim, ...]
    abstained: int
    trivial: int


def check_certified(run: Run) -> CertifiedRun:
    """The run, if it has certificates, whose bounds can be computed again."""
    if not isinstance(run, CertifiedRun):
        raise InvalidArgument(
            f"{run.path} is an imported log, not certificates of a network; give a run of 'holdfast certify'"
        )
    if len(run) == 0:
        raise InvalidArgument(f"{run.path} holds no finished certificates yet, so it makes no claims")
    return run


def claimed_measure(run: CertifiedRun, name: str | None) -> str:
    """The measure of that name, or the first one, if the run claims it."""
    claimed = [each for each in run.measures if each != "label"]
    if not claimed or name not in (None, *claimed):
        asked = "any measure" if name is None else repr(name)
        known = ", ".join(claimed) or "the label alone"
        raise InvalidArgument(f"{run.path} claims no average of {asked}, only: {known}; ask for what it claims")
    return name or claimed[0]


def claims_of(run: CertifiedRun, asked: ClaimsAsked) -> Claims:
    """What the run's scores would have certified with a share of the copies, but not more than it certified, less the margin.

    Nothing here is a guarantee: it is the question, and it is fixed before anything is sampled.
    """
    measure = claimed_measure(run, asked.measure)
    bottom = run.measure(measure).support[0]
    found: list[Claim] = []
    abstained = trivial = 0
    for entry in islice(run, asked.most):
        certificate = entry.certificate
        if certificate.abstained:
            abstained += len(asked.radii)
            continue
        alpha = per_side(certificate.alpha_per_claim, certificate.sides)
        certified = np.asarray(certificate.curve(measure).lower(asked.radii))
        lowered = np.minimum(certified, _with_fewer(certificate, measure, asked)) - asked.margin
        values = np.floor(_UNITS * lowered) / _UNITS
        for radius, known, value in zip(asked.radii, certified.tolist(), values.tolist(), strict=True):
            if value > bottom:
                found.append(Claim(entry.index, certificate.predicted, radius, known, value, alpha))
            else:
                trivial += 1
    return Claims(tuple(found), abstained, trivial)


def _with_fewer(certificate: Certificate, measure: str, asked: ClaimsAsked) -> NDArray[np.float64]:
    scores, known = certificate.evidence[measure], certificate.provenance
    fewer = bound(
        scores.thinned(asked.supposed(scores.n)).under(known.seen(certificate.noise), known.order),
        alpha=certificate.alpha_per_claim,
        method=certificate.method,
        sides=certificate.sides,
    )
    return np.asarray(fewer.lower(asked.radii), dtype=np.float64)
