"""What triage found: a threshold with its guarantee, the table it was chosen from, and the rule to use it."""

from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from holdfast.certificate import Certificate
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.rounding import ceil_decimals, floor_decimals, shortest
from holdfast.triage.reach import Origin
from holdfast.triage.reliability import Reliability
from holdfast.triage.rule import Rule, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1


@dataclass(frozen=True)
class Row:
    """One threshold, with counts of the calibration inputs.

    Attributes:
        sure_from: a true average score from which on the service accepts.
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
    Source:
        docs/triage.md, with the proof.
    """

    radius: float
    epsilon: float
    delta: float
    alpha: float
    inputs: int
    origin: Origin
    rows: tuple[Row, ...]
    reliability: Reliability
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def chosen(self) -> Row | None:
        """The lowest certified threshold: it accepts most. None if no threshold is."""
        return min((row for row in self.rows if row.certified), key=lambda row: row.threshold, default=None)

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
        """Other noisy copies that it needs at least, to choose the class."""
        return self.origin.n0

    def decide(self, certificate: Certificate) -> Verdict:
        """Accept the class or hand the input over, from a fresh certificate of the input as it came.

        Requires:
            Noise that whoever chose the input did not know: a secret seed, and a new one (or a new index) each time.
        """
        mine, theirs = self.origin, Origin.of(certificate)
        more = replace(theirs, n=max(theirs.n, mine.n), n0=max(theirs.n0, mine.n0), bins=max(theirs.bins, mine.bins))
        if theirs != more or (theirs.sigma, theirs.model, theirs.precision) != (mine.sigma, mine.model, mine.precision):
            raise InvalidInput(
                f"the threshold was chosen for {mine}, and holds for at least that many copies and bins of the same model, "
                f"got a certificate of {theirs}; certify with n={mine.n}, n0={mine.n0}"
            )
        average = certificate.evidence.score.from_below().mean
        rule = Rule(0.5 if self.threshold is None else self.threshold, theirs.n, theirs.n0, self.alpha)
        confidence = rule.confidence(average)
        said = f"confidence {floor_decimals(confidence, 3)} in class {certificate.predicted}"
        if self.threshold is None:
            return Verdict(False, certificate.predicted, confidence, f"handed over: no threshold is certified ({said})")
        if rule.accepts(average):
            return Verdict(
                True, certificate.predicted, confidence, f"accepted: {said}, needs {shortest(self.threshold)}"
            )
        return Verdict(
            False, certificate.predicted, confidence, f"handed over: {said}, needs {shortest(self.threshold)}"
        )

    def __str__(self) -> str:
        promise = f"whatever perturbations up to radius {shortest(self.radius)} an adversary chooses"
        sure = f"(with probability at least {1 - Decimal(repr(self.delta))})"
        row = self.chosen
        if row is None:
            best = min(self.rows, key=lambda each: each.error_bound)
            return (
                f"No threshold keeps the error among accepted inputs at {shortest(self.epsilon)} or less, {promise} "
                f"{sure}: hand everything to a human. The best, {shortest(best.threshold)}, is only bounded by "
                f"{ceil_decimals(best.error_bound, 3)} ({best.could_be_wrong} of {self.inputs} inputs could be accepted and "
                f"wrong, {best.surely_right} are surely accepted)."
            )
        return (
            f"Accept from confidence {shortest(row.threshold)} on: at most {shortest(self.epsilon)} of what is accepted is wrong, "
            f"{promise} {sure}. Of {self.inputs} inputs {row.could_be_wrong} could be accepted and wrong, {row.surely_right} are "
            f"surely accepted; as surely, at least {floor_decimals(row.coverage, 3)} of all are accepted under any attack. Without "
            f"one, {row.clean_accepted} were accepted ({row.clean_wrong} wrong) and {self.inputs - row.clean_accepted} handed over."
        )

    def figure(self) -> "Figure":
        """Error and coverage against the threshold, under attack and without."""
        from holdfast.triage.figure import triage_figure

        return triage_figure(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format": FORMAT, "threshold": self.threshold, "guarantee": str(self), **asdict(self)}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Triage":
        """The inverse of :meth:`to_dict`."""
        if d.get("format") != FORMAT:
            raise InvalidArgument(f"expected a triage file of format {FORMAT}, got format {d.get('format')!r}")
        try:
            plain = {each.name: d[each.name] for each in fields(cls)}
            return cls(
                **{
                    **plain,
                    "origin": Origin(**plain["origin"]),
                    "rows": tuple(Row(**row) for row in plain["rows"]),
                    "reliability": Reliability(**plain["reliability"]),
                }
            )
        except (KeyError, TypeError) as error:
            raise InvalidArgument(f"not a triage file written by to_dict(): {type(error).__name__} {error}") from error
