"""Whether two answers to the same rows are one classifier's: in other company, later, or from what runs in a module's place."""

from dataclasses import dataclass

import torch
from torch import Tensor

_SMALLEST = 1e-12
_MOST_VARIATION = 0.5
"""How far the probabilities of one row may be off: rows with small scores are lost in the average with large ones."""


@dataclass(frozen=True)
class Tolerance:
    """How far answers may be apart: relative to their size on average over the rows and at most, and in total variation."""

    typical: float
    most: float
    variation: float


SAME = Tolerance(5e-4, 5e-3, 1e-3)
"""The same float32 arithmetic, in another place of the batch."""
SAME_ROUNDED = Tolerance(1e-2, 1e-1, 2e-2)
"""The same arithmetic at a lower precision."""
OTHER_KERNELS = Tolerance(1e-3, 1e-2, 1e-3)
"""Float32, compiled or on another device."""
OTHER_ROUNDING = Tolerance(3e-1, 1.0, 1e-1)
"""A lower precision, rounded in other places: an untrained ResNet-110 in bfloat16 is off by nearly as much when compiled."""


def relative_distance(found: Tensor, reference: Tensor) -> Tensor:
    """How far rows of probabilities are from a reference's, next to how far the reference's are from having no preference.

    Logarithms less their mean are logits less their mean. They are compared with their own size in all rows, so that
    neither the number of classes nor how sure the model is plays a role.
    """
    logs = (each.double().clamp_min(_SMALLEST).log() for each in (found, reference))
    theirs, ours = (each - each.mean(1, keepdim=True) for each in logs)
    off = (theirs - ours).norm(dim=1)
    return torch.where(off > 0, off / ours.square().sum(1).mean().sqrt(), off)


def total_variation(found: Tensor, reference: Tensor) -> Tensor:
    """The most that the probabilities of rows give differently to any set of classes."""
    return (found.double() - reference.double()).abs().sum(1) / 2


def difference(found: Tensor, reference: Tensor, tolerance: Tolerance) -> str:
    """What is wrong with other probabilities of the same rows, in words; empty if they are near enough. NaN is not."""
    if found.shape != reference.shape:
        return f"class scores have shape {tuple(found.shape)} instead of {tuple(reference.shape)}"
    found, reference = found.cpu(), reference.cpu()
    if torch.equal(found, reference):
        return ""
    off, change = relative_distance(found, reference), total_variation(found, reference)
    if not float(off.mean()) <= tolerance.typical:
        return f"class scores are off by {float(off.mean()):.2g} of their size"
    if not float(off.max()) <= tolerance.most:
        return f"class scores of one row are off by {float(off.max()):.2g} of their size"
    if not float(change.mean()) <= tolerance.variation:
        return f"probabilities are off by {float(change.mean()):.2g}"
    if not float(change.max()) <= _MOST_VARIATION:
        return f"probabilities of one row are off by {float(change.max()):.2g}"
    return ""
