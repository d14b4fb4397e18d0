"""What an adversary within the radius can do to each labelled input, bounded by its certificate."""

import operator
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import bound
from holdfast.certificates.certificate import Certificate
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.measures import SUM_TOLERANCE, SUM_TOLERANCE_0_1_0, sum_tolerance
from holdfast.noise import DRAWING_ERROR, Noise, describe_step, noise_fields, stored_noise
from holdfast.triage.rule import AcceptanceRule
from holdfast.validation import check_alpha, check_radius

Labelled = Iterable[tuple[Certificate, int]]
"""Certificates with their labels."""


@dataclass(frozen=True)
class Origin:
    """What must be the same for every certificate, and again at deployment.

    Attributes:
        sum_tolerance: how far the probabilities of one noisy copy may be from summing to one.
        step: of the grid that the classifier rounds its input to.
        units: what the radius is in, if that is not the input's own units.
    """

    noise: Noise
    n: int
    n0: int
    bins: int
    model: str
    precision: str
    sum_tolerance: float = SUM_TOLERANCE
    step: float = 0.0
    units: str = ""

    @classmethod
    def of(cls, certificate: Certificate) -> "Origin":
        """The origin of a certificate's counts; refused if their number was chosen after looking at them."""
        if certificate.share != 1:
            raise InvalidInput(
                "expected a certificate whose number of copies was fixed beforehand, got one of several looks at the same copies; "
                "certify with a fixed n: smoothed.certify, smoothed.triage, or POST /v1/certify"
            )
        made, evidence = certificate.provenance, certificate.evidence
        bins, tolerance = evidence["score"].grid.bins, sum_tolerance(evidence.measure("score"))
        counted, network = (certificate.n, certificate.n0, bins), (made.model, made.precision)
        return cls(certificate.noise, *counted, *network, tolerance, made.step, made.units)

    def __str__(self) -> str:
        copies = f"{self.n:,} + {self.n0:,} noisy copies, counted in {self.bins:,} bins"
        sums = f"probabilities that sum to one within {self.sum_tolerance:.3g}"
        grid = f", inputs in steps of {describe_step(self.step)}" if self.step else ""
        units = f", radii in {self.units}" if self.units else ""
        return f"the model {self.model} at {self.precision} with {self.noise.title}{grid}{units} ({copies}, {sums})"

    def rule(self, threshold: float, alpha: float) -> AcceptanceRule:
        """The service's rule with as many copies."""
        return AcceptanceRule(threshold, self.n, self.n0, alpha, self.sum_tolerance)

    @property
    def network(self) -> tuple[Noise, float, str, str, str]:
        """Noise, grid, model, precision and units, as the certificate records them."""
        return self.noise, self.step, self.model, self.precision, self.units

    def allows(self, other: "Origin") -> bool:
        """Whether a rule that was chosen for these counts may be used with the other's.

        More copies do no harm. A finer grid rounds scores down by less, if it has all edges of the coarser: grids with
        2, 4, 8, ... times the bins do, to the last digit.
        """
        finer, rest = divmod(other.bins, self.bins)
        nested = rest == 0 and finer.bit_count() == 1
        as_exact = other.sum_tolerance <= self.sum_tolerance
        return other.network == self.network and nested and as_exact and other.n >= self.n and other.n0 >= self.n0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; units that are the input's are left out."""
        plain = {name: value for name, value in asdict(self).items() if value or name != "units"}
        return {**plain, **noise_fields(self.noise)}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Origin":
        """The inverse of :meth:`to_dict`."""
        plain = {name: value for name, value in d.items() if name not in ("noise", "sigma")}
        return cls(noise=stored_noise(d), **{"sum_tolerance": SUM_TOLERANCE_0_1_0, **plain})


@dataclass(frozen=True, eq=False)
class AttackBounds:
    """Bounds within the radius of each input, from the counts of one class: the predicted one.

    Guarantee:
        For each input separately, everything about it holds with probability at least ``1 - alpha`` over its noise.

    Attributes:
        right: whether the predicted class is the label.
        lower, upper: bounds on the predicted class's average score.
        other: an upper bound on every other class's average score.
        leads: whether no other class's average score can reach the predicted one's.
        average: the predicted class's average score over the copies that were drawn; an estimate.
    """

    alpha: float
    right: NDArray[np.bool_]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    other: NDArray[np.float64]
    leads: NDArray[np.bool_]
    average: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.right)

    @property
    def wrong(self) -> NDArray[np.float64]:
        """No wrong class's average score exceeds this."""
        return np.where(self.right, self.other, np.maximum(self.upper, self.other))

    @property
    def sure(self) -> NDArray[np.float64]:
        """The right class's average score does not fall below this."""
        return np.where(self.right, self.lower, 0.0)


def bound_attacks(labelled: Labelled, *, radius: float, alpha: float) -> tuple[AttackBounds, Origin]:
    """Bounds of labelled certificates, computed again from their counts at this alpha; any claims and sides will do.

    Score (both sides) and margin (lower side) take half of alpha each.

    Requires:
        Inputs and noise that are independent. Certificates that share their noise are refused; one input that was
        certified under two seeds is not noticed.
    """
    radius, alpha = check_radius(radius), check_alpha(alpha)
    found: list[tuple[bool, float, float, float, float]] = []
    origin: Origin | None = None
    keys: set[tuple[int, int]] = set()
    for certificate, label in _pairs(labelled):
        mine = Origin.of(certificate)
        origin = mine if origin is None else origin
        if mine != origin:
            raise InvalidInput(
                f"certificates must all be of one model and setting, got some of {origin} and some of {mine}"
            )
        if not certificate.method.guaranteed:
            raise InvalidArgument(f"{certificate.method.name} is an estimate, not a certificate; certify with another")
        key = (certificate.provenance.seed, certificate.provenance.index)
        if key in keys:
            raise InvalidInput(
                f"two certificates share their noise (index {key[1]}): an input given twice, or one seed for several inputs; "
                f"use certify_many or a run"
            )
        keys.add(key)
        known = _check_label(label)
        evidence, method = certificate.evidence, certificate.method
        seen = certificate.provenance.seen(evidence.noise), certificate.provenance.order
        score = bound(evidence["score"].under(*seen), alpha=alpha / 2, method=method, sides="both")
        margin = bound(evidence["margin"].under(*seen), alpha=alpha / 2, method=method)
        # The service's copies are drawn with an error, too: bounds are on the averages that it draws from.
        off = DRAWING_ERROR if mine.step else 0.0
        low, high = max(0.0, score.lower(radius) - off), min(1.0, score.upper(radius) + off)
        lead = margin.lower(radius) - 2 * off
        found.append((certificate.predicted == known, low, high, lead, evidence["score"].survival_lower().mean))
    if origin is None:
        raise InvalidInput("triage needs labelled inputs, got none")
    right, low_, high_, lead_, average = (np.array(column) for column in zip(*found, strict=True))
    most = 1 + origin.sum_tolerance
    other = np.clip(np.minimum((most - lead_) / 2, most - low_), 0.0, 1.0)
    return AttackBounds(alpha, right, low_, high_, other, lead_ > 0, average), origin


def _pairs(labelled: Labelled) -> Iterator[tuple[Certificate, int]]:
    """Each pair of a certificate and a label; whatever else was given is refused."""
    for pair in labelled if isinstance(labelled, Iterable) else (labelled,):
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Certificate):
            raise InvalidInput(
                f"triage needs pairs of a certificate and its label, such as run.labelled() or zip(certificates, labels), got "
                f"{reprlib.repr(pair)}"
            )
        yield pair


def _check_label(label: int) -> int:
    """The label as a plain number: an array of one would broadcast."""
    try:
        known = operator.index(label)
    except TypeError:
        known = -1
    if known < 0:
        raise InvalidInput(
            f"labels must be class numbers from 0, one whole number for each certificate, got {label!r}; triage needs labelled inputs"
        )
    return known
