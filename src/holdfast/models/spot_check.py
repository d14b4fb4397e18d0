"""A few rows with a model's answers to them: whether other kernels, or a copy elsewhere, are the same model."""

from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Leeway:
    """How far class scores may be off: on average over the rows, and at most; and, if they are logits, their probabilities.

    Probabilities may be off so far on average. Without it, scores are probabilities, or nothing is asked of them.
    """

    typical: float
    most: float
    answers: float | None = None


EXACT = Leeway(1e-3, 1e-2, 1e-3)
"""Of what is computed in float32."""
ROUNDED = Leeway(3e-2, 2e-1, 1e-1)
"""Of what is rounded further. A 1,000-class network's probabilities are off by .025 on average in bfloat16."""
_ROUGHEST = Leeway(3e-1, 1.0)
"""However much rounding does."""
_MOST_TURNED = 0.5
"""How far the probabilities of one row may be off: rows with small scores are lost in the average with large ones."""
_TIMES = 10
"""Compiled, a network is rounded in other places: an untrained ResNet-110 on a CPU was off seven times as far."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The class scores that rows should get, and how far others may be off."""

    scores: Tensor
    leeway: Leeway

    def fault(self, scores: Tensor) -> str:
        """What is wrong with other scores of the rows, in words; empty if they are near enough. NaN is not."""
        if scores.shape != self.scores.shape:
            return f"class scores have shape {tuple(scores.shape)} instead of {tuple(self.scores.shape)}"
        here, allowed = scores.to(self.scores.device), self.leeway
        off = apart(here, self.scores)
        if not float(off.mean()) <= allowed.typical:
            return f"class scores are off by {float(off.mean()):.2g} of their size"
        if not float(off.max()) <= allowed.most:
            return f"class scores of one row are off by {float(off.max()):.2g} of their size"
        if allowed.answers is not None:
            change = turned(here, self.scores)
            if not float(change.mean()) <= allowed.answers:
                return f"probabilities are off by {float(change.mean()):.2g}"
            if not float(change.max()) <= _MOST_TURNED:
                return f"probabilities of one row are off by {float(change.max()):.2g}"
        return ""

    @property
    def telling(self) -> bool:
        """Whether the scores change from row to row by more than others may be off: a constant is got right by anything."""
        return bool(self.fault(self.scores.mean(0, keepdim=True).expand_as(self.scores)))


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """Rows, and what they should get: of several references one will do."""

    rows: Tensor
    references: tuple[Reference, ...]

    def fault(self, scores: Tensor) -> str:
        """What is wrong with other scores of the rows, in words; empty if they are near enough."""
        faults = [reference.fault(scores) for reference in self.references]
        return faults[0] if all(faults) else ""

    @property
    def telling(self) -> bool:
        """Whether something wrong would be noticed."""
        return all(reference.telling for reference in self.references)

    def cpu(self) -> "SpotCheck":
        """The same, to be sent elsewhere."""
        return SpotCheck(self.rows.cpu(), tuple(Reference(each.scores.cpu(), each.leeway) for each in self.references))


def spot_check(rows: Tensor, scores: Tensor, exact: Tensor | None, *, rounded: bool, logits: bool) -> SpotCheck:
    """For other ways to run a model: they may be off by a few times what rounding to its precision does to it.

    Parameters:
        scores: the model's own, at its precision.
        exact: its scores in float32, if its precision is lower and they are known.
        rounded: whether its precision is lower than float32's.
        logits: whether its scores are logits.
    """
    limits = ROUNDED if rounded else EXACT
    limits = limits if logits else replace(limits, answers=None)
    own = Reference(scores, limits)
    if exact is None or torch.equal(scores, exact):
        return SpotCheck(rows, (own,))
    off = apart(scores, exact)
    typical, most = _TIMES * float(off.mean()) + EXACT.typical, _TIMES * float(off.max()) + EXACT.most
    # A probability may turn over wholly where two classes are equal.
    most = min(most, _ROUGHEST.most) if logits else most
    limits = replace(limits, typical=min(typical, _ROUGHEST.typical), most=most)
    return SpotCheck(rows, (Reference(exact, limits), own))
