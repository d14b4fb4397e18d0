"""A certificate: the value users hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.bounds import Curve, Method, bound
from holdfast.bounds.method import check_method
from holdfast.bounds.named import method_named
from holdfast.certificates.card import certificate_card
from holdfast.certificates.describe import abstention_reason, describe
from holdfast.certificates.evidence import Evidence, Provenance, check_claimed, check_claims, claimable
from holdfast.certificates.implied_margin import implied_margin
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import InvalidArgument
from holdfast.measures import SUM_TOLERANCE, Margin, MeasureInfo, PredictionScore, sum_tolerance
from holdfast.noise import Noise, sigma_of
from holdfast.plotting import draw_curves, draw_label_radius, in_symbols, plain, radius_label
from holdfast.scores.rounding import format_number
from holdfast.validation import Sides, check_alpha, check_count, check_number, check_sides

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 1


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
        claims: what alpha was spent on: "label", and names of measures that are in the evidence.
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
        object.__setattr__(self, "claims", check_claims(self.claims, claimable(self.evidence.measures)))
        check_method(self.method)
        self.method.check_noise(self.noise)
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        check_sides(self.sides)
        check_count("predicted", self.predicted, at_least=0, at_most=2**31)
        check_count("n0", self.n0)
        if not 0 < check_number("share", self.share) <= 1:
            raise InvalidArgument(
                f"share must be in (0, 1], the part of alpha spent on these copies, got {self.share!r}"
            )

    def __repr__(self) -> str:
        state = "abstained" if self.abstained else "certified"
        claims = ", ".join(self.claims)
        return f"Certificate(class {self.predicted}, {state}; {claims}; n={self.n}, {self.noise}, alpha={self.alpha:g})"

    @property
    def n(self) -> int:
        """How many noisy copies the bounds rest on."""
        return self.evidence.n

    @property
    def noise(self) -> Noise:
        """What the noisy copies were made with; radii are in its norm."""
        return self.evidence.noise

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in the units of the input, if it is Gaussian."""
        return sigma_of(self.noise)

    @property
    def seed(self) -> int:
        """What the noise was drawn from; keep it secret from whoever chooses the inputs."""
        return self.provenance.seed

    @property
    def alpha_per_claim(self) -> float:
        """The alpha of each claim: an equal share of this look's alpha."""
        return self.alpha * self.share / len(self.claims)

    @property
    def measures(self) -> tuple[MeasureInfo, ...]:
        """The measures that are claimed."""
        return tuple(info for info in self.evidence.measures if info.name in self.claims)

    def curve(self, name: str) -> Curve:
        """Bounds on the average of one measure, as a function of the radius: a claimed one, or the :attr:`margin`."""
        if name == Margin.name and name not in self.claims and PredictionScore.name in self.claims:
            tolerance = sum_tolerance(self.evidence.measure(PredictionScore.name))
            if tolerance <= SUM_TOLERANCE:  # 0.1.0 counted rows that had larger errors, of another kind
                return implied_margin(self.score, tolerance)
        check_claimed(name, self.claims)
        if name not in self._known_curves:
            self._known_curves[name] = bound(
                self.evidence[name].under(self.provenance.seen(self.noise), self.provenance.order),
                alpha=self.alpha_per_claim,
                method=self.method,
                sides=self.sides,
            )
        return self._known_curves[name]

    @cached_property
    def _known_curves(self) -> dict[str, Curve]:
        return {}

    @property
    def curves(self) -> dict[str, Curve]:
        """The claimed curves by name."""
        return {info.name: self.curve(info.name) for info in self.measures}

    @property
    def score(self) -> Curve:
        """Bounds on the predicted class's average prediction score, in (0, 1)."""
        return self.curve("score")

    @property
    def margin(self) -> Curve:
        """Bounds on the average margin over the best other class, in (-1, 1).

        Where only the score is claimed, what it implies, for no alpha: at least ``2 score - 1``, and at most the score.
        """
        return self.curve("margin")

    @property
    def label(self) -> LabelCertificate:
        """The vote's certificate."""
        check_claimed("label", self.claims)
        seen = self.provenance.seen(self.noise)
        return LabelCertificate(self.evidence.votes, self.n, alpha=self.alpha_per_claim, noise=seen)

    @property
    def label_radius(self) -> float:
        """Cohen et al.'s certified radius: the vote's winner is the predicted class at every point strictly within."""
        return self.label.radius

    @cached_property
    def abstained(self) -> bool:
        """True if no claim certifies the predicted class as the winner (of the votes or of the average scores) even at x.

        The bounds stay what they are: a certificate of low confidence is still a certificate.
        """
        by_votes = "label" in self.claims and self.label.certified
        return not (by_votes or any(self._wins(info) for info in self.measures))

    def _wins(self, measure: MeasureInfo) -> bool:
        """Whether the average of a measure is certified, at x itself, to make the class the prediction."""
        if measure.winning is None or not self.method.guaranteed:
            return False
        return self.curve(measure.name).lower(0.0) > measure.winning

    @property
    def reason(self) -> str:
        """Why the certificate abstains; empty if it does not."""
        return abstention_reason(self) if self.abstained else ""

    def describe(self, name: str | None = None) -> str:
        """The certificate in plain words; ``name`` is that of the class."""
        return describe(self, name)

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        return certificate_card(self)

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
        """Draw the certified curves against the radius (up to four times the noise's scale unless told otherwise)."""
        if axes is None:
            from matplotlib import pyplot

            from holdfast.house_figure import HouseFigure

            axes = pyplot.figure(FigureClass=HouseFigure, figsize=(5.6, 3.6)).add_subplot()
        draw_curves(axes, self.curves, up_to=4 * self.noise.scale if up_to is None else up_to)
        axes.set_xlabel(radius_label(self.noise, plain(self.provenance.units)))
        if "label" in self.claims:
            draw_label_radius(axes, self.label_radius)
        said = f"{self.noise.title}, alpha = {format_number(self.alpha)}"
        axes.set_title(f"class {self.predicted}, {in_symbols(said)}, n = {self.n:,}", fontsize=10)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(edgecolor="none")
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
                sides=d["sides"],
                method=method_named(d["method"]),
                evidence=Evidence.from_dict(d["evidence"]),
                provenance=Provenance.from_dict(d["provenance"]),
                share=d.get("share", 1.0),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InvalidArgument(f"not a certificate written by to_dict(): {type(error).__name__} {error}") from error

    def _summary(self) -> dict[str, Any]:
        radii = [0.0, *(k * self.noise.scale for k in (1, 2, 3))]
        summary: dict[str, Any] = {"radii": radii}
        for name, curve in self.curves.items():
            summary[f"{name}_lower"] = [curve.lower(radius) for radius in radii]
            if self.sides == "both":
                summary[f"{name}_upper"] = [curve.upper(radius) for radius in radii]
        if "label" in self.claims:
            summary["label_radius"] = self.label_radius
        return summary
