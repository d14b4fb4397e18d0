"""A few rows with a model's answers to them: whether other kernels, or a copy elsewhere, are the same model."""

from dataclasses import dataclass

import torch
from torch import Tensor


def apart(scores: Tensor, reference: Tensor) -> Tensor:
    """How far rows of class scores are from a reference's, next to how far the reference's are from having no preference.

    Adding a number to all scores of a row changes no answer, and counts as nothing. What is left is compared with its own
    size in all rows, so that neither the number of classes nor how sure the model is plays a role.
    """
    theirs, ours = (each.double() - each.double().mean(1, keepdim=True) for each in (scores, reference))
    size = ours.square().sum(1).mean().sqrt()
    off = (theirs - ours).norm(dim=1)
    return torch.where(off > 0, off / size, off)


def turned(logits: Tensor, reference: Tensor) -> Tensor:
    """The most that the probabilities of rows give differently to any set of classes.

    Scores that are out of the question, such as those of classes that are masked, may be so large that :func:`apart` sees
    nothing else.
    """
    return (logits.double().softmax(1) - reference.double().softmax(1)).abs().sum(1) / 2


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """Rows, the class scores they should get, and how far others may be off: on average over the rows, and at most.

    If scores are logits, ``answers`` says how far their probabilities may be off on average.
    """

    rows: Tensor
    scores: Tensor
    typical: float
    most: float
    answers: float | None = None

    def difference(self, scores: Tensor) -> float:
        """How far other scores of the rows are off on average."""
        if scores.shape != self.scores.shape:
            return float("inf")
        return float(apart(scores.to(self.scores.device), self.scores).mean())

    def passes(self, scores: Tensor) -> bool:
        """Whether other scores of the rows are near enough; NaN is not."""
        if not self.difference(scores) <= self.typical:
            return False
        here = scores.to(self.scores.device)
        if self.answers is not None and not float(turned(here, self.scores).mean()) <= self.answers:
            return False
        return float(apart(here, self.scores).max()) <= self.most

    @property
    def telling(self) -> bool:
        """Whether the scores change from row to row: a constant is got right by anything."""
        return not torch.equal(self.scores, self.scores[:1].expand_as(self.scores))

    def cpu(self) -> "SpotCheck":
        """The same, to be sent elsewhere."""
        return SpotCheck(self.rows.cpu(), self.scores.cpu(), self.typical, self.most, self.answers)
