"""A model's answer to a batch: whether it can be a classifier's, and its probabilities."""

from typing import Any

import torch
from torch import Tensor

from holdfast.errors import InvalidArgument, ModelError

_ACCEPTED = 1e-3
"""How far a model's own probabilities may be from summing to one; they are divided by their sum."""
_BFLOAT16 = 0.004
_ROUNDED = 0.05
"""Probabilities that were rounded to two digits may be so far off."""


def check_outputs(outputs: str) -> bool:
    """Whether a model returns logits; the other choice is probabilities."""
    if outputs not in ("logits", "probabilities"):
        raise InvalidArgument(f'outputs must be "logits" or "probabilities", got {outputs!r}')
    return outputs == "logits"


def scores_of(answer: Any) -> Any:
    """What of an answer are the class scores: its ``logits``, where it has such, as the models of transformers do."""
    return getattr(answer, "logits", answer)


def output_error(answer: object, rows: int, *, logits: bool) -> str:
    """What is wrong with the answer to so many rows, in words; empty if nothing is."""
    if not isinstance(answer, Tensor):
        return f"expected a tensor of shape ({rows}, classes), got {type(answer).__name__}; wrap the module to return its logits"
    if not answer.is_floating_point():
        return (
            f"expected floating-point class scores, got {answer.dtype}; return logits, or what predict_proba returns, not class "
            f"indices"
        )
    if answer.ndim != 2 or answer.shape[0] != rows or answer.shape[1] < 2:
        hint = _shape_hint(answer, rows, logits=logits)
        return f"expected a tensor of shape ({rows}, classes) with at least 2 classes, got {tuple(answer.shape)}{hint}"
    if not bool(torch.isfinite(answer).all()):
        return "expected finite class scores, got NaN or infinity"
    off = float((answer.float().sum(1) - 1).abs().max())
    positive = bool((answer >= 0).all())
    if answer.dtype == torch.bfloat16 and _ACCEPTED < off <= _BFLOAT16 and positive:
        return "its rows are probabilities but for the rounding of bfloat16; compute the softmax in float32, or return logits"
    if logits and positive and off <= _ACCEPTED:
        return (
            "its rows are nonnegative and sum to one, so they are probabilities, not logits: "
            'pass outputs="probabilities" (on the command line, --outputs probabilities)'
        )
    if not logits and not (positive and off <= _ACCEPTED):
        least, sums = answer.float().amin(1), answer.float().sum(1)
        row = int(torch.where(least < 0, torch.inf, (sums - 1).abs()).argmax())
        remedy = 'for unnormalised scores pass outputs="logits" (on the command line, --outputs logits)'
        if positive and off <= _ROUNDED:
            remedy = "divide each row by its sum"
        return (
            f"expected probabilities that are nonnegative and sum to one, got a row with minimum {least[row].item():.4g} and sum "
            f"{sums[row].item():.4g}; {remedy}"
        )
    return ""


def _shape_hint(answer: Tensor, rows: int, *, logits: bool) -> str:
    """What makes class scores of an answer of another shape."""
    if answer.ndim == 3 and answer.shape[1] == 1 < answer.shape[2]:
        return "; leave the batch dimension out of the input: certify(x[0])"
    if rows == 0 or answer.numel() != rows:
        return ""
    if not logits:
        return "; a binary model with one probability p needs two: return (1 - p, p)"
    column = "nn.Unflatten(0, (-1, 1)), " if answer.ndim == 1 else ""
    pair = f"nn.Sequential(net, {column}nn.ConstantPad1d((1, 0), 0.0))"
    return f"; a binary model with one logit needs two, (0, logit): give {pair}"


def checked_probabilities(model: str, answer: object, rows: int, *, logits: bool) -> Tensor:
    """Probabilities from the answer to a few rows, refused in words if it is not a classifier's."""
    fault = output_error(answer, rows, logits=logits)
    if fault or not isinstance(answer, Tensor):
        raise ModelError(f"the model {model} cannot be certified: {fault}")
    return as_probabilities(answer, logits=logits)


def as_probabilities(answer: Tensor, *, logits: bool) -> Tensor:
    """Float32 probabilities that sum to one, in memory of their own; NaN for rows that are not probabilities.

    A model may keep its answer's memory and write to it again while it is being counted.
    """
    own = answer.to(torch.float32, copy=True)
    if logits:
        return own.softmax(1)
    sums = own.sum(1, keepdim=True)
    bad = ((sums - 1).abs() > _ACCEPTED) | (own.amin(1, keepdim=True) < 0)
    return own.div_(sums.masked_fill_(bad, torch.nan))
