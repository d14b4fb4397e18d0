"""The worst Brier score that any perturbation within a radius can cause, from certified bounds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.runs.certified import CertifiedRun
from holdfast.triage.attack_bounds import AttackBounds, bound_attacks
from holdfast.triage.reliability import largest_squares

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CertifiedBrier:
    """For each input, upper bounds on two Brier scores of the smoothed classifier under attack.

    Guarantee:
        For each input, with probability at least ``1 - alpha`` over its noise, neither score is larger than its bound
        anywhere within the radius.

    Attributes:
        classes: of all average scores p against the label y: ``sum_k (p_k - [k = y])^2``, in [0, 2].
        answer: of the answer's average score z against right or wrong: ``(z - right)^2``, in [0, 1]; the answer is the class
            with the largest average score at the attacked input.
    """

    classes: Floats
    answer: Floats


def certified_brier(run: CertifiedRun, radius: float, alpha: float) -> CertifiedBrier:
    """Both scores of every input of a run, in the order of the index."""
    bounds, origin = bound_attacks(run.labelled(), radius=radius, alpha=alpha)
    return CertifiedBrier(largest_sum_of_squares(bounds, origin.sum_tolerance), largest_squares(bounds))


def largest_sum_of_squares(bounds: AttackBounds, tolerance: float) -> Floats:
    """The largest ``sum_k (p_k - [k = y])^2`` if the predicted class's average score q is in ``[lower, upper]``.

    What the other classes share is ``rest = 1 - q``, and the sum of their squares is at most ``rest^2``. If the prediction
    is right, the score is at most ``(1 - q)^2 + rest^2``, which decreases in q: q is ``lower``. If it is wrong, the label
    may have nothing and another class the rest: ``1 + q^2 + rest^2``, which is convex in q: q is ``lower`` or ``upper``.
    Probabilities sum to one within ``tolerance``, which is added to the rest.
    """

    def rest(q: Floats) -> Floats:
        return np.asarray((1 - q + tolerance) ** 2, dtype=np.float64)

    low, high = bounds.lower, bounds.upper
    right = (1 - low) ** 2 + rest(low)
    wrong = 1 + np.maximum(low**2 + rest(low), high**2 + rest(high))
    return np.where(bounds.right, right, wrong)
