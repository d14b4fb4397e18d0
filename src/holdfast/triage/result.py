"""The result of triage: a threshold with its guarantee, the table it was chosen from, and the rule to apply it."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from holdfast.certificates.certificate import Certificate
from holdfast.certificates.describe import in_norm
from holdfast.certificates.settings import Settings
from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidArgument, InvalidInput, reading
from holdfast.noise import describe_step
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number
from holdfast.triage.attack_bounds import Origin
from holdfast.triage.consistency import check_consistent
from holdfast.triage.drift import Drift, drift_test
from holdfast.triage.figure import triage_card, triage_figure
from holdfast.triage.reliability import Reliability
from holdfast.triage.rule import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
_LATER = ("fingerprint", "spot_check", "scores")
"""What older files do not have."""


@dataclass(frozen=True)
class Row:
    """One threshold, with counts of the calibration inputs.

    Attributes:
        sure_from: a true average score from which on the service accepts; infinite if it never does.
        could_be_wrong: inputs that some perturbation within the radius could get accepted as a wrong class.
        surely_right: inputs that no perturbation can keep from being accepted as what they are.
        observed: the first among both; an estimate of the error under attack.
        error_bound: an upper bound on that error, for this threshold alone, with probability at least 1 - delta.
        coverage: a lower bound on the share that is accepted under any attack; for all thresholds at once.
        certified: whether the threshold passed: all that did keep the promise together.
        clean_accepted, clean_wrong: what the service did at the inputs themselves.
    """

    threshold: float
    sure_from: float
    could_be_wrong: int
    surely_right: int
    observed: float
    error_bound: float
    coverage: float
    certified: bool
    clean_accepted: int
    clean_wrong: int


@dataclass(frozen=True)
class Triage:
    """A decision rule and its guarantee.

    Guarantee:
        With probability at least ``1 - delta`` over the calibration inputs and their noise, at most a share ``epsilon`` of
        what the service accepts is wrong, under any perturbation of every input by up to ``radius``; an adversary who
        chooses them, and so who is accepted, may know everything but the service's noise.
    Requires:
        Inputs of deployment (before perturbation) are drawn like the calibration inputs, which were not trained on.
        The service runs the same network, and refuses no input that an adversary within the radius may send. Inputs are points
        of the classifier's grid, or rounded to it before distances are measured.
    Source:
        docs/triage.md, with the proof.

    Attributes:
        fingerprint: of the network that the certificates are of, where it is known; see ``smoothed.fingerprint``.
        spot_check: a few rows and that network's answers, where they are known: its code may change under one fingerprint.
        scores: the average score of each calibration input, in ascending order, for :meth:`drift`; none in older files.
    """

    radius: float
    epsilon: float
    delta: float
    alpha: float
    inputs: int
    origin: Origin
    rows: tuple[Row, ...]
    reliability: Reliability
    fingerprint: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    spot_check: SpotCheck | None = None
    scores: tuple[float, ...] = ()

    @property
    def chosen(self) -> Row | None:
        """The lowest certified threshold: it accepts most. None if no threshold is."""
        return min((row for row in self.rows if row.certified), key=lambda row: row.threshold, default=None)

    @property
    def best(self) -> Row:
        """The row with the smallest error bound, certified or not."""
        return min(self.rows, key=lambda row: row.error_bound)

    @property
    def threshold(self) -> float | None:
        """The chosen confidence threshold; None if everything must go to a human."""
        return None if self.chosen is None else self.chosen.threshold

    @property
    def n(self) -> int:
        """Noisy copies that a decision needs at least."""
        return self.origin.n

    @property
    def n0(self) -> int:
        """The least number of other noisy copies, to choose the class."""
        return self.origin.n0

    def decide(self, certificate: Certificate) -> Verdict:
        """Accept the class or hand the input over, from a fresh certificate of the received input.

        Requires:
            Noise that whoever chose the input did not know: a secret seed, and a new one (or a new index) each time.
            A certificate of every input the adversary may send: ``smoothed.certify`` refuses images with pixels outside
            [-0.5, 1.5], and an input that is refused is not covered by the guarantee; ``smoothed.triage(x, triage)``
            moves them back first, and compares the network too.
        """
        mine, theirs = self.origin, Origin.of(_certificate(certificate))
        if not mine.allows(theirs):
            raise InvalidInput(
                f"the threshold was chosen for {mine}, and holds for at least that many copies of the same model and for as many "
                f"bins, or 2, 4, 8, ... times as many, got a certificate of {theirs}; certify with n={mine.n}, n0={mine.n0}"
            )
        average = certificate.evidence["score"].survival_lower().mean
        rule = theirs.rule(0.5 if self.threshold is None else self.threshold, self.alpha)
        confidence = rule.confidence(average)
        said = f"confidence {floor_decimals(confidence, 3)} in class {certificate.predicted}"
        if self.threshold is None:
            return Verdict(False, certificate.predicted, confidence, f"handed over: no threshold is certified ({said})")
        accepted = rule.accepts(average)
        reason = f"{'accepted' if accepted else 'handed over'}: {said}, needs {format_number(self.threshold)}"
        return Verdict(accepted, certificate.predicted, confidence, reason)

    def score(self, certificate: Certificate) -> float:
        """The average score of a new input, for :meth:`drift`; refused unless it was made as the calibration inputs' were."""
        theirs = Origin.of(_certificate(certificate))
        if theirs != self.origin:
            raise InvalidInput(
                f"scores can be compared with those of {self.origin} only, got a certificate of {theirs}; certify new inputs as the "
                f"calibration inputs were"
            )
        return certificate.evidence["score"].survival_lower().mean

    def drift(self, scores: ArrayLike, *, alpha: float = 0.01) -> Drift:
        """Do new inputs look like the calibration inputs? ``scores`` has one :meth:`score` for each, from one or many sources.

        Guarantee:
            The result's: if they do, drift is found with probability at most ``alpha``.
        Requires:
            How many scores are tested does not depend on them: all of a day, or the next 500.
        """
        if not self.scores:
            raise InvalidArgument(
                "this triage holds no scores of its calibration inputs, since an older Holdfast wrote it; run 'holdfast triage' again"
            )
        return drift_test(self.scores, scores, alpha=alpha)

    @property
    def settings(self) -> Settings:
        """The counts that the rule reads; since it reads nothing else, alpha only has to allow as few copies."""
        return Settings(self.n, self.n0, alpha=0.5, claims=("score",))

    def check_network(self, fingerprint: str | None) -> None:
        """Refuse a network other than the calibrated one; warn if they cannot be compared.

        A spot check compares answers, where it is run: see ``smoothed.triage``.
        """
        if self.fingerprint is None or fingerprint is None:
            if self.spot_check is not None:
                return
            unknown = "the triage was made without one" if self.fingerprint is None else "this network has none"
            warnings.warn(
                f"whether this is the network that the threshold was chosen for cannot be checked: {unknown}; "
                f"see choose_threshold(..., fingerprint=smoothed.fingerprint)",
                RuntimeWarning,
                stacklevel=4,
            )
        elif fingerprint != self.fingerprint:
            raise InvalidInput(
                f"the threshold was chosen for another network (fingerprint {self.fingerprint[:12]}..., this one has "
                f"{fingerprint[:12]}...); load those weights, or calibrate again with these"
            )

    def __repr__(self) -> str:
        row = self.chosen
        rule = "everything to a human" if row is None else f"accepts from {format_number(row.threshold)}"
        promise = f"radius={self.radius:g}{in_norm(self.origin.noise, self.origin.units)}, epsilon={self.epsilon:g}, delta={self.delta:g}"
        return f"Triage({rule}; {promise}; {self.inputs:,} inputs, {len(self.rows)} thresholds)"

    def __str__(self) -> str:
        within = in_norm(self.origin.noise, self.origin.units)
        grid = f" in steps of {describe_step(self.origin.step)}" if self.origin.step else ""
        promise = f"whatever perturbations{grid} up to radius {format_number(self.radius)}{within} an adversary chooses"
        sure = f"(with probability at least {1 - Decimal(repr(self.delta))})"
        row = self.chosen
        if row is None:
            best = self.best
            counts = (
                f"({best.could_be_wrong} of {self.inputs} inputs could be accepted and wrong, {best.surely_right} are surely "
                f"accepted)"
            )
            if best.error_bound <= self.epsilon:
                nearest = (
                    f"The best, {format_number(best.threshold)} {counts}, would have passed only if it had been the one threshold "
                    f"fixed beforehand: naming it now spends delta again, and needs new calibration inputs"
                )
            else:
                bounded = ceil_decimals(best.error_bound, 3)
                nearest = f"The best, {format_number(best.threshold)}, is only bounded by {bounded} {counts}"
            return (
                f"No threshold is shown to keep the error among accepted inputs at {format_number(self.epsilon)} or less, {promise} "
                f"{sure}: hand everything to a human. {nearest}."
            )
        return (
            f"Accept from confidence {format_number(row.threshold)} on: at most {format_number(self.epsilon)} of what is accepted "
            f"is wrong, {promise} {sure}. Of {self.inputs} inputs {row.could_be_wrong} could be accepted and wrong, {row.surely_right} are "
            f"surely accepted. At least {floor_decimals(row.coverage, 3)} of all are accepted under any attack (a statement of its "
            f"own, as probable; both hold with at least {1 - 2 * Decimal(repr(self.delta))}). Without an "
            f"attack, {row.clean_accepted} were accepted ({row.clean_wrong} wrong) and {self.inputs - row.clean_accepted} handed over."
        )

    def _repr_html_(self) -> str:
        return triage_card(self)

    def figure(self) -> "Figure":
        """Error and coverage against the threshold, under attack and without."""
        return triage_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a threshold at which nothing can be accepted is sure from null."""
        plain = asdict(self)
        plain["origin"] = self.origin.to_dict()
        plain["spot_check"] = None if self.spot_check is None else self.spot_check.to_dict()
        plain["rows"] = [
            {**row, "sure_from": row["sure_from"] if row["sure_from"] < math.inf else None} for row in plain["rows"]
        ]
        return {"format": FORMAT, "threshold": self.threshold, "guarantee": str(self), **plain}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Triage":
        """The inverse of :meth:`to_dict`; what does not follow from the file's own counts is refused."""
        if not isinstance(d, Mapping):
            raise InvalidArgument(f"expected a triage file written by to_dict(), a dictionary, got {type(d).__name__}")
        if d.get("format") != FORMAT:
            raise InvalidArgument(f"expected a triage file of format {FORMAT}, got format {d.get('format')!r}")
        with reading(
            "this", InvalidArgument, "is no triage file written by to_dict()", remedy="run 'holdfast triage' again"
        ):
            plain = {each.name: d[each.name] for each in fields(cls) if each.name not in _LATER}
            known = d.get("spot_check")
            found = cls(
                **{
                    **plain,
                    "fingerprint": d.get("fingerprint"),
                    "spot_check": None if known is None else SpotCheck.from_dict(known),
                    "scores": tuple(d.get("scores", ())),
                    "origin": Origin.from_dict(plain["origin"]),
                    "rows": tuple(_row(row) for row in plain["rows"]),
                    "reliability": Reliability(**plain["reliability"]),
                }
            )
            check_consistent(found, threshold=d["threshold"], guarantee=d["guarantee"])
            _ = str(found), found.settings  # what follows from it can be computed
        return found


def _row(d: dict[str, Any]) -> Row:
    return Row(**{**d, "sure_from": math.inf if d["sure_from"] is None else d["sure_from"]})


def _certificate(given: object) -> Certificate:
    if not isinstance(given, Certificate):
        raise InvalidInput(f"expected a Certificate, as smoothed.certify(...) returns it, got {type(given).__name__}")
    return given
