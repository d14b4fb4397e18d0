"""Two confidences in one answer: the network's own without noise, and the smoothed classifier's average score.

The paper's figures 3 and 4 set the first, "softmax prediction score", against the certified radius of the label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.paper.agreement import Agreement, agreement
from experiments.paper.evaluation import Answer, Evaluation
from experiments.paper.softmax import PlainSoftmax

SOFTMAX = "network's softmax for the predicted class"
LARGEST = "network's largest softmax"
SCORE = "certified average score"


@dataclass(frozen=True)
class Confidence:
    """One input: what the network says without noise, beside what is certified of the smoothed classifier.

    Attributes:
        answer: predicted class, certified label radius and certified average score, of the smoothed classifier.
        softmax: the network's softmax at the clean input, for that same class: radius, score and softmax are about one claim.
        preferred: the class that the network itself prefers at the clean input.
        largest: its softmax for that class.
    """

    answer: Answer
    softmax: float
    preferred: int
    largest: float


def confidences(run: Evaluation) -> tuple[Confidence, ...]:
    """Every input of a run, in the order of the index; the run's folder must hold the network's softmax."""
    stored = PlainSoftmax.beside(run.run.path)
    index = [a.index for a in run.answers]
    softmax = stored.of(index, [a.predicted for a in run.answers]).tolist()
    preferred = stored.preferred(index)
    largest = stored.of(index, preferred).tolist()
    return tuple(Confidence(*each) for each in zip(run.answers, softmax, preferred, largest, strict=True))


def rank_correlations(of: Sequence[Confidence]) -> Agreement:
    """Spearman's rho of each confidence with the label radius, and what each has less than the average score."""
    return agreement(
        column(of, lambda each: each.answer.label_radius),
        {
            SOFTMAX: column(of, lambda each: each.softmax),
            LARGEST: column(of, lambda each: each.largest),
            SCORE: column(of, lambda each: each.answer.score),
        },
        reference=SCORE,
    )


def answered(of: Sequence[Confidence]) -> list[Confidence]:
    """The inputs on which the published logs would not abstain: label certified, and average score above one half."""
    return [each for each in of if each.answer.label_radius > 0 and each.answer.score > 0.5]


def column(of: Sequence[Confidence], number: Callable[[Confidence], float]) -> NDArray[np.float64]:
    """One number an input."""
    return np.array([number(each) for each in of], dtype=np.float64)
