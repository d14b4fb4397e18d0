"""A module's answer to a batch: whether it can be a classifier's."""

import torch
from torch import Tensor

from holdfast.models.model import TOLERANCE


def fault_of(answer: object, rows: int, *, logits: bool) -> str:
    """What is wrong with the answer to so many rows, in words; empty if nothing is."""
    if not isinstance(answer, Tensor):
        return f"expected a tensor of shape ({rows}, classes), got {type(answer).__name__}; wrap the module to return its logits"
    if answer.ndim != 2 or answer.shape[0] != rows or answer.shape[1] < 2:
        hint = "; a binary model with one output needs two: stack (0, logit)" if answer.numel() == rows else ""
        return f"expected a tensor of shape ({rows}, classes) with at least 2 classes, got {tuple(answer.shape)}{hint}"
    if not answer.is_floating_point():
        return f"expected floating-point class scores, got {answer.dtype}; return logits, not class indices"
    if not bool(torch.isfinite(answer).all()):
        return "expected finite class scores, got NaN or infinity"
    sums_to_one = bool(((answer.float().sum(1) - 1).abs() <= TOLERANCE).all()) and bool((answer >= 0).all())
    if not sums_to_one and answer.dtype == torch.bfloat16 and bool(((answer.float().sum(1) - 1).abs() <= 0.004).all()):
        return "its rows are probabilities but for the rounding of bfloat16; compute the softmax in float32, or return logits"
    if logits and sums_to_one:
        return (
            "its rows are nonnegative and sum to one, so they are probabilities, not logits: "
            'pass outputs="probabilities" (on the command line, --outputs probabilities)'
        )
    if not logits and not sums_to_one:
        row = answer[0].float()
        return (
            f"expected probabilities that are nonnegative and sum to one, got a row with minimum {row.min().item():.4g} and sum "
            f'{row.sum().item():.4g}; for unnormalised scores pass outputs="logits" (on the command line, --outputs logits)'
        )
    return ""
