"""How many noisy copies go through the network at once."""

import torch

from holdfast.validation import check_count

SMALLEST_BATCH = 8
_LARGEST_BATCH = 2**20
_FLOPS = 4.5e12
_ENOUGH_FLOPS = 1e12
_ENOUGH_ROWS = 2_500
_NUMBERS = 2**28
_GPU_SIZES = (10_000, 5_000, 2_500, 2_000, 1_000, 500, 250, 200, 100, 50, 25, 10)
_CPU_SIZES = (64, 32, 16, 8)
_MULTIPLE = 8
_CPU_NUMBERS = 2**18


def check_batch(batch: int | None) -> int | None:
    """A batch size that someone asked for; a tiny one is raised to the smallest that is worth it."""
    return None if batch is None else max(SMALLEST_BATCH, check_count("batch", batch, at_most=_LARGEST_BATCH))


def default_batch(device: torch.device, shape: torch.Size, flops: float, copies: int) -> int:
    """What fits a CPU's cache, or keeps a GPU busy for ten or twenty milliseconds.

    On a GPU it is fitted to the copies of one input, so that their last batch is nearly full; if it does not fit the
    GPU's memory, the engine halves it. ``flops`` is the work for one copy.
    """
    if device.type == "cpu":
        return next((size for size in _CPU_SIZES if size * shape.numel() <= _CPU_NUMBERS), _CPU_SIZES[-1])
    flops = max(flops, 1.0)
    enough = max(_ENOUGH_ROWS, _ENOUGH_FLOPS / flops)
    most = min(_FLOPS / flops, enough, _NUMBERS / shape.numel())
    size = next((size for size in _GPU_SIZES if size <= most), _GPU_SIZES[-1])
    if copies <= size:
        return size
    batches = -(-copies // size)
    return -(-copies // (batches * _MULTIPLE)) * _MULTIPLE


def reused_batch(size: int, compiled: int) -> int:
    """The size that a network was compiled for already, if it is not far from the one that fits best.

    Filling up a last batch takes a moment, compiling for another size up to a minute.
    """
    return compiled if size <= 2 * compiled and compiled <= 2 * size else size
