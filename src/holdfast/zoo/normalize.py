"""Normalisation as the first layer of a network, where it belongs.

Noise is added to pixels in [0, 1]; a network that normalises inside itself sees noise of standard deviation sigma in
those units, in training and in certification alike.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.scores.rounding import format_count


class Normalize(nn.Module):
    """Subtract a mean and divide by a standard deviation, per channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(each > 0 for each in std):
            raise InvalidArgument(
                f"Normalize takes a mean and a positive std per channel, got mean={mean!r}, std={std!r}"
            )
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a batch (n, channels, height, width)."""
        tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # sizes are no numbers then
        if x.ndim != 4 or (not tracing and x.shape[1] != self.mean.shape[1]):
            known = format_count(self.mean.shape[1], "channel")
            raise InvalidInput(f"expected a batch of images with {known}, got dimensions {tuple(x.shape)}")
        return (x - self.mean) / self.std
