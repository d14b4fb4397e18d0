"""How many noisy copies go through the network at once."""

import torch

from holdfast.validation import check_count

SMALLEST_BATCH = 8
_LARGEST_BATCH = 2**20
_FLOPS = 4.5e12
_ENOUGH_FLOPS = 1e12
_ENOUGH_ROWS = 2_512
_NUMBERS = 2**28
_GPU_SIZES = (10_024, 5_016, 2_512, 2_016, 1_016, 512, 256, 208, 104, 56, 32, 16)
"""Multiples of eight; the default 100,000 copies and 100 to choose a class leave the last batch nearly full."""
_CPU_SIZES = (2_048, 1_024, 256, 64, 32, 16, 8)
_CPU_NUMBERS = 2**18
"""What fits a core's cache."""
_FEW_ROWS, _MANY_NUMBERS = 64, 2**22
"""Where a pass costs much whatever its size, larger batches gain more than they lose to the cache."""


def check_batch(batch: int | None) -> int | None:
    """A batch size that someone asked for; a tiny one is raised to the smallest that is worth it."""
    return None if batch is None else max(SMALLEST_BATCH, check_count("batch", batch, at_most=_LARGEST_BATCH))


def default_batch(device: torch.device, shape: torch.Size, flops: float, rows: int = 64) -> int:
    """What fits a CPU's cache, or keeps a GPU busy for ten or twenty milliseconds.

    If it does not fit the GPU's memory, the engine halves it. ``flops`` is the work for one copy, and ``rows`` the most that
    suit the model on a CPU.
    """
    if device.type == "cpu":
        numbers = _CPU_NUMBERS if rows <= _FEW_ROWS else _MANY_NUMBERS
        sizes = [rows, *(size for size in _CPU_SIZES if size < rows)]
        return next((size for size in sizes if size * shape.numel() <= numbers), _CPU_SIZES[-1])
    flops = max(flops, 1.0)
    enough = max(_ENOUGH_ROWS, _ENOUGH_FLOPS / flops)
    most = min(_FLOPS / flops, enough, _NUMBERS / shape.numel())
    return next((size for size in _GPU_SIZES if size <= most), _GPU_SIZES[-1])
