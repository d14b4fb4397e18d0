"""Every class at once: lower and upper bounds on all average scores, and the lead over each other class, with one alpha."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds import Curves, Method, bound_many
from holdfast.bounds.search import largest_radius
from holdfast.certificates.card import classes_card
from holdfast.certificates.describe import describe_classes
from holdfast.certificates.evidence import Provenance, check_claimed, check_claims
from holdfast.certificates.feasibility import check_enough, smallest_n
from holdfast.errors import InvalidArgument
from holdfast.measures import DEFAULT_MEASURES
from holdfast.noise import Noise
from holdfast.scores import ScoreHistogram
from holdfast.validation import check_alpha, check_copies, check_radii

CLASS_CLAIMS = ("scores", "gaps")


@dataclass(frozen=True)
class ClassCounts:
    """Histograms of every class's score, and of the predicted class's lead over every other, over ``n`` noisy copies.

    ``gaps[j]`` belongs to ``h_predicted - h_j``; the predicted class's own place holds zeros' counts. Counts add.
    """

    n: int
    scores: tuple[ScoreHistogram, ...]
    gaps: tuple[ScoreHistogram, ...]

    @property
    def noise(self) -> Noise:
        """The noise that the copies were made with."""
        return self.scores[0].noise

    def __add__(self, other: "ClassCounts") -> "ClassCounts":
        return ClassCounts(
            self.n + other.n,
            tuple(mine + theirs for mine, theirs in zip(self.scores, other.scores, strict=True)),
            tuple(mine + theirs for mine, theirs in zip(self.gaps, other.gaps, strict=True)),
        )


@dataclass(frozen=True)
class ClassCertificate:
    """What no perturbation within a radius can do to any class.

    Guarantee:
        With probability at least ``1 - alpha`` everything on it is true at once: for every class, every radius and both
        sides. Each claim takes an equal share of alpha and divides it among its classes (Bonferroni).

    Attributes:
        predicted: the class with the largest average score over the n0 selection copies; gaps are its leads.
        claims: what alpha was spent on: ``scores`` (both sides for all classes), ``gaps`` (lower side).
    """

    predicted: int
    n0: int
    alpha: float
    claims: tuple[str, ...]
    method: Method
    counts: ClassCounts = field(repr=False)
    provenance: Provenance = field(repr=False)

    def __post_init__(self) -> None:
        self.check(self.claims, self.alpha, self.method, self.counts.noise)

    @staticmethod
    def check(claims: Sequence[str] | None, alpha: float, method: Method, noise: Noise) -> tuple[str, ...]:
        """The claims, None being all; refused if they do not exist, and so is a method that gives no certificate from counts."""
        wanted = CLASS_CLAIMS if claims is None else check_claims(claims, CLASS_CLAIMS)
        check_alpha(alpha)
        if not isinstance(method, Method) or method.needs_order or not method.guaranteed:
            raise InvalidArgument(
                f"method must give certificates from counts, such as CDF(band=BerkJones()), got {method!r}"
            )
        method.check_noise(noise)
        return wanted

    @staticmethod
    def check_n(n: int, claims: Sequence[str], alpha: float, method: Method, noise: Noise) -> None:
        """Refuse an n with which, of two classes, not even full agreement would put one above the other; more take more."""
        share, (score, margin) = alpha / len(claims), DEFAULT_MEASURES
        least = {
            "scores": lambda: smallest_n(score.info, share / 2, "both", method, noise),
            "gaps": lambda: smallest_n(margin.info, share, "lower", method, noise),
        }
        check_enough(check_copies("n", n), alpha, {claim: least[claim]() for claim in claims})

    def __repr__(self) -> str:
        made = f"n={self.counts.n:,}, {self.counts.noise}, alpha={self.alpha:g}"
        return f"ClassCertificate(class {self.predicted} of {self.classes}; {', '.join(self.claims)}; {made})"

    def __str__(self) -> str:
        return describe_classes(self)

    def _repr_html_(self) -> str:
        return classes_card(self)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.counts.scores)

    @property
    def _seen(self) -> Noise:
        return self.provenance.seen(self.counts.noise)

    @cached_property
    def _scores(self) -> Curves:
        check_claimed("scores", self.claims)
        alpha = self.alpha / len(self.claims) / self.classes
        return bound_many(
            [each.under(self._seen) for each in self.counts.scores], alpha=alpha, method=self.method, sides="both"
        )

    @cached_property
    def _gaps(self) -> Curves:
        check_claimed("gaps", self.claims)
        alpha = self.alpha / len(self.claims) / (self.classes - 1)
        return bound_many(
            [self.counts.gaps[k].under(self._seen) for k in self._others], alpha=alpha, method=self.method
        )

    @property
    def _others(self) -> Sequence[int]:
        return [k for k in range(self.classes) if k != self.predicted]

    def lower(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Lower bounds on every class's average score, shape (classes, *radius.shape)."""
        return self._scores.lower(check_radii(radius))

    def upper(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Upper bounds on every class's average score, shape (classes, *radius.shape)."""
        return self._scores.upper(check_radii(radius))

    def gap(self, radius: ArrayLike) -> NDArray[np.float64]:
        """Lower bounds on the predicted class's lead over each class; zero over itself.

        The lead over one class is at least the margin over the best of all, and its bound is usually far higher.
        """
        radii = check_radii(radius)
        found = np.zeros((self.classes, *radii.shape))
        found[self._others] = self._gaps.lower(radii)
        return found

    @cached_property
    def winner_radius(self) -> float:
        """The radius within which no other class can overtake the predicted one in average score; 0.0 if none is certified."""

        def smallest_lead(radius: NDArray[np.float64]) -> NDArray[np.float64]:
            leads = self._gaps.lower(radius)
            return np.asarray(leads.min(axis=0), dtype=np.float64)

        return largest_radius(smallest_lead, 1e-12, unit=self.counts.noise.scale)
