"""A certificate: the value users hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.bounds import Curve, Method, bound
from holdfast.bounds.named import method_named
from holdfast.certificates.evidence import Evidence
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import InvalidArgument, NotClaimed
from holdfast.plotting import draw_curves, house_style
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number
from holdfast.validation import Sides, check_alpha, check_count, check_number, check_sides

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLAIMS = ("label", "score", "margin")
FORMAT = 1


@dataclass(frozen=True)
class Provenance:
    """Where the noisy copies came from; with the same seed, index and model they can be drawn again."""

    seed: int
    index: int
    noise: str
    model: str
    device: str
    precision: str
    version: str
    seconds: float = field(compare=False)
    compiled: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the seed as hexadecimal text, since JSON numbers are too short for it."""
        return {**vars(self), "seed": f"{self.seed:#x}"}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Provenance":
        """The inverse of :meth:`to_dict`."""
        return cls(**{**d, "seed": int(d["seed"], 16)})


@dataclass(frozen=True)
class Certificate:
    """Certified confidence of a smoothed classifier at one input.

    Guarantee:
        With probability at least ``1 - alpha`` over the noise, **everything** on it is true: each claim takes an equal
        share of alpha, and each holds for every radius at once. It speaks of the smoothed classifier, at the precision
        it was sampled in.

    Attributes:
        predicted: the class with the largest average score over the n0 selection copies; every bound is about it.
        alpha: total failure probability.
        claims: what alpha was spent on: any of "label", "score" and "margin".
        evidence: counts from the n estimation copies, from which every bound is computed.
        share: the part of alpha that may be spent on these n copies. It is less than one where more looks at the same
            copies were planned, after other numbers of them: then alpha is the failure probability of all looks together.
    """

    predicted: int
    n0: int
    alpha: float
    claims: tuple[str, ...]
    sides: Sides
    method: Method
    evidence: Evidence
    provenance: Provenance
    share: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", check_claims(self.claims))
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        check_sides(self.sides)
        check_count("predicted", self.predicted, at_least=0)
        check_count("n0", self.n0)
        if not 0 < check_number("share", self.share) <= 1:
            raise InvalidArgument(
                f"share must be in (0, 1], the part of alpha spent on these copies, got {self.share!r}"
            )

    def __repr__(self) -> str:
        state = "abstained" if self.abstained else "certified"
        claims = ", ".join(self.claims)
        return f"Certificate(class {self.predicted}, {state}; {claims}; n={self.n}, sigma={self.sigma:g}, alpha={self.alpha:g})"

    @property
    def n(self) -> int:
        """How many noisy copies the bounds rest on."""
        return self.evidence.n

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in the units of the input."""
        return self.evidence.sigma

    @property
    def seed(self) -> int:
        """What the noise was drawn from; keep it secret from whoever chooses the inputs."""
        return self.provenance.seed

    @property
    def alpha_per_claim(self) -> float:
        """What each claim may spend: an equal part of what this look may."""
        return self.alpha * self.share / len(self.claims)

    @cached_property
    def score(self) -> Curve:
        """Bounds on the predicted class's average prediction score, in (0, 1)."""
        self._claimed("score")
        return bound(self.evidence.score, alpha=self.alpha_per_claim, method=self.method, sides=self.sides)

    @cached_property
    def margin(self) -> Curve:
        """Bounds on the average margin over the best other class, in (-1, 1)."""
        self._claimed("margin")
        return bound(self.evidence.margin, alpha=self.alpha_per_claim, method=self.method, sides=self.sides)

    @property
    def curves(self) -> dict[str, Curve]:
        """The claimed curves by name."""
        return {name: getattr(self, name) for name in self.claims if name != "label"}

    @property
    def label(self) -> LabelCertificate:
        """The vote's certificate."""
        self._claimed("label")
        return LabelCertificate(self.evidence.votes, self.n, self.sigma, self.alpha_per_claim)

    @property
    def label_radius(self) -> float:
        """Cohen et al.'s certified radius: the vote's winner is the predicted class at every point strictly within."""
        return self.label.radius

    @cached_property
    def abstained(self) -> bool:
        """True if no claim certifies the predicted class as the winner (of the votes or of the average scores) even at x.

        The bounds stay what they are: a certificate of low confidence is still a certificate.
        """
        label = "label" in self.claims and self.label.certified
        sure = self.method.guaranteed
        score = sure and "score" in self.claims and self.score.lower(0.0) > 0.5
        margin = sure and "margin" in self.claims and self.margin.lower(0.0) > 0.0
        return not (label or score or margin)

    @property
    def reason(self) -> str:
        """Why the certificate abstains; empty if it does not."""
        if not self.abstained:
            return ""
        short = []
        if "label" in self.claims:
            short.append(
                f"its share of votes is only certified above {floor_decimals(self.label.probability, 3)} (needs 0.5)"
            )
        if "score" in self.claims:
            short.append(f"its average score only above {floor_decimals(self.score.lower(0.0), 3)} (needs 0.5)")
        if "margin" in self.claims:
            short.append(f"its average margin only above {floor_decimals(self.margin.lower(0.0), 3)} (needs 0)")
        return (
            f"no claim certifies class {self.predicted} as the winner at the input itself: {'; '.join(short)}. "
            f"More noisy copies than {self.n:,} help if it is close"
        )

    def describe(self, name: str | None = None) -> str:
        """The certificate in plain words; every number is rounded to the safe side."""
        who = f"class {self.predicted}" if name is None else f"class {self.predicted} ({name})"
        radius = self.sigma
        said = []
        for name, curve in self.curves.items():
            said.append(f"the average {name} stays at least {floor_decimals(curve.lower(radius), 3)}")
            if self.sides == "both":
                said[-1] += f" and at most {ceil_decimals(curve.upper(radius), 3)}"
        sentence = f"{who[0].upper()}{who[1:]}: "
        if said:
            sentence += f"for every perturbation up to radius {format_number(radius)}, {' and '.join(said)}"
        if "label" in self.claims:
            sentence += "; " if said else ""
            if self.label.certified:
                sentence += f"its label cannot change within radius {floor_decimals(self.label_radius, 3)}"
            else:
                sentence += "its label is not certified"
        sentence += "."
        if self.abstained:
            sentence = f"Abstains: nothing certifies the class as the winner here. {sentence}"
        made = f"n = {self.n:,} noisy copies, sigma = {format_number(self.sigma)}, {self.method.name}"
        if self.share < 1:
            made += ", one of several planned looks, all of them covered"
        if not self.method.guaranteed:
            return f"{sentence} These are estimates, NOT a certificate ({made})."
        return f"{sentence} All of it holds with probability at least {format_confidence(self.alpha)} ({made})."

    def __str__(self) -> str:
        return self.describe()

    def recompute(
        self,
        *,
        alpha: float | None = None,
        claims: Sequence[str] | None = None,
        sides: str | None = None,
        method: Method | None = None,
    ) -> "Certificate":
        """The certificate these same samples give with other settings; nothing is sampled again.

        Guarantee:
            Each result is valid on its own, for settings chosen without looking at the samples. Trying several and
            keeping the best spends alpha several times: divide it among them.
        """
        return replace(
            self,
            alpha=self.alpha if alpha is None else alpha,
            claims=self.claims if claims is None else tuple(claims),
            sides=self.sides if sides is None else check_sides(sides),
            method=self.method if method is None else method,
        )

    def plot(self, axes: "Axes | None" = None, *, up_to: float | None = None) -> "Axes":
        """Draw the certified curves against the radius (up to four sigma unless told otherwise)."""
        from matplotlib import pyplot

        with house_style():
            if axes is None:
                _, axes = pyplot.subplots(figsize=(5.6, 3.6))
            draw_curves(axes, self.curves, up_to=4 * self.sigma if up_to is None else up_to)
            if "label" in self.claims and self.label_radius > 0:
                axes.axvline(self.label_radius, color="0.4", linestyle="--", linewidth=1.0, label="label radius")
            axes.set_title(f"class {self.predicted}, alpha = {self.alpha:g}, n = {self.n:,}", fontsize=10)
            axes.legend()
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: everything :meth:`from_dict` needs, and a rounded summary for other readers."""
        return {
            "format": FORMAT,
            "predicted": self.predicted,
            "abstained": self.abstained,
            "reason": self.reason,
            "n0": self.n0,
            "alpha": self.alpha,
            "share": self.share,
            "claims": list(self.claims),
            "sides": self.sides,
            "method": self.method.name,
            "summary": self._summary(),
            "evidence": self.evidence.to_dict(),
            "provenance": self.provenance.to_dict(),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Certificate":
        """The inverse of :meth:`to_dict`."""
        if not isinstance(d, Mapping):
            raise InvalidArgument(f"expected a certificate written by to_dict(), a dictionary, got {type(d).__name__}")
        if d.get("format") != FORMAT:
            raise InvalidArgument(
                f"expected a certificate of format {FORMAT}, got format {d.get('format')!r}; a newer Holdfast may read it"
            )
        try:
            return cls(
                predicted=d["predicted"],
                n0=d["n0"],
                alpha=d["alpha"],
                claims=tuple(d["claims"]),
                sides=check_sides(d["sides"]),
                method=method_named(d["method"]),
                evidence=Evidence.from_dict(d["evidence"]),
                provenance=Provenance.from_dict(d["provenance"]),
                share=check_number("share", d.get("share", 1.0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InvalidArgument(f"not a certificate written by to_dict(): {type(error).__name__} {error}") from error

    def _claimed(self, claim: str) -> None:
        if claim not in self.claims:
            raise NotClaimed(
                f"this certificate does not claim {claim!r} (claims={self.claims!r}), and spent no alpha on it; "
                f"certify with claims=(..., {claim!r}), or cert.recompute(claims=...) from the same samples"
            )

    def _summary(self) -> dict[str, Any]:
        radii = [0.0, self.sigma, 2 * self.sigma, 3 * self.sigma]
        summary: dict[str, Any] = {"radii": radii}
        for name, curve in self.curves.items():
            summary[f"{name}_lower"] = [curve.lower(radius) for radius in radii]
            if self.sides == "both":
                summary[f"{name}_upper"] = [curve.upper(radius) for radius in radii]
        if "label" in self.claims:
            summary["label_radius"] = self.label_radius
        return summary


def format_confidence(alpha: float) -> str:
    """``1 - alpha``, exactly."""
    if alpha < 1e-12:
        return f"1 - {alpha!r}"
    return format((1 - Decimal(repr(alpha))) * 100, "f").rstrip("0").rstrip(".") + "%"


def check_claims(claims: Sequence[str]) -> tuple[str, ...]:
    """Return the claims in their usual order if they are known, different and at least one."""
    wanted = (claims,) if isinstance(claims, str) else tuple(claims)
    if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= set(CLAIMS):
        raise InvalidArgument(f"claims must be one or more of {', '.join(CLAIMS)}, each once, got {claims!r}")
    return tuple(claim for claim in CLAIMS if claim in wanted)
