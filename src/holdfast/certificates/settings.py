"""What one certificate is asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, replace

from holdfast.bounds import DEFAULT_METHOD, Method
from holdfast.bounds.method import check_method
from holdfast.bounds.tangents import aimed_at
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.evidence import MOST_SELECTION, Evidence, Provenance, Selection, check_claims, claimable
from holdfast.certificates.feasibility import check_enough, smallest_n, smallest_n_for_label
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise
from holdfast.validation import check_alpha, check_copies, check_count, check_sides


@dataclass(frozen=True)
class Settings:
    """Checked one by one here, and as a whole by :meth:`resolved`, before anything is sampled.

    Attributes:
        n: noisy copies for estimation.
        n0: other copies, to choose the class.
        alpha: total failure probability of a certificate, shared equally by its claims.
        claims: of ``"label"`` and the names of what is measured; None stands for all of them.
        sides: ``"lower"``, or ``"both"`` for upper bounds too (each side then gets half).
        method: which bound; the default is the best one for a whole curve.
        aim: a radius named beforehand, for a tighter bound there: the best of ``method`` and ``Tangent(aim)``, for half of alpha each.
    """

    n: int = 100_000
    n0: int = 100
    alpha: float = 1e-3
    claims: Sequence[str] | None = None
    sides: str = "lower"
    method: Method = DEFAULT_METHOD
    aim: InitVar[float | None] = None

    def __post_init__(self, aim: float | None) -> None:
        check_copies("n", self.n)
        check_count("n0", self.n0, at_most=MOST_SELECTION)
        check_sides(self.sides)
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        check_method(self.method)
        object.__setattr__(self, "method", aimed_at(aim, self.method))
        if self.claims is not None:
            named = isinstance(self.claims, Iterable) and not isinstance(self.claims, str)
            object.__setattr__(self, "claims", tuple(self.claims) if named else (self.claims,))

    def resolved(self, measures: Sequence[MeasureInfo], noise: Noise) -> "Settings":
        """The same with its claims spelt out, refused if these measures and this noise do not allow them.

        An n with which some claim could not certify its class even if every copy agreed completely is refused, too.
        """
        known = claimable(measures)
        claims = known if self.claims is None else check_claims(self.claims, known)
        self.method.check_noise(noise)
        share, sides = self.alpha / len(claims), check_sides(self.sides)
        claimed = [info for info in measures if info.name in claims]
        needed = {info.name: smallest_n(info, share, sides, self.method, noise) for info in claimed}
        if "label" in claims:
            needed["label"] = smallest_n_for_label(share)
        check_enough(self.n, self.alpha, {claim: needed[claim] for claim in claims})
        return replace(self, claims=claims)

    def certificate(self, selection: Selection, evidence: Evidence, provenance: Provenance) -> Certificate:
        """What these settings make of counts: n0 copies chose the class, others are the evidence for it."""
        return Certificate(
            predicted=selection.predicted,
            n0=self.n0,
            alpha=self.alpha,
            claims=tuple(self.claims or ()),
            sides=check_sides(self.sides),
            method=self.method,
            evidence=evidence,
            provenance=provenance,
        )
