"""Noisy copies on a GPU in one pass: the numbers of :mod:`holdfast.noise.drawing.steps`, added to the input's and converted once."""

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from holdfast.noise.drawing.steps import quarters
from holdfast.noise.rounded import AliasTable

_BLOCK = 512


@triton.jit  # type: ignore[untyped-decorator]
def _column(word, columns, bits: tl.constexpr):  # type: ignore[no-untyped-def]
    own = (word >> (64 - bits)).to(tl.int32)
    found = tl.load(columns + own).to(tl.uint64, bitcast=True)
    alias = (found & ((1 << bits) - 1)).to(tl.int32)
    return tl.where((word << bits) < ((found >> bits) << bits), own, alias)


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    levels,
    keys,
    slots,
    copies,
    out,
    columns,
    first,
    step,
    size,
    quarters,
    bits: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row)
    zero = tl.zeros([BLOCK], tl.int64)
    # NumPy's stream counts its blocks from one.
    counter = tl.load(copies + row) * quarters + block + 1
    a, b, c, d = tl.philox(
        tl.load(keys + 3 * slot),
        counter,
        zero,
        zero + tl.load(keys + 3 * slot + 1),
        zero + tl.load(keys + 3 * slot + 2),
    )
    even = tl.join(_column(a, columns, bits), _column(c, columns, bits))
    odd = tl.join(_column(b, columns, bits), _column(d, columns, bits))
    number = tl.reshape(tl.join(even, odd), [4 * BLOCK])  # a, b, c, d of the first counter, then of the next
    place = tl.program_id(1) * 4 * BLOCK + tl.arange(0, 4 * BLOCK)
    inside = place < size
    level = tl.load(levels + slot * size + place, mask=inside, other=0) + first + number
    tl.store(out + row * size + place, level.to(tl.float32) * step, mask=inside)


@lru_cache(maxsize=16)
def _on_device(table: AliasTable, device: torch.device) -> Tensor:
    """The table's columns in the GPU's memory."""
    return torch.from_numpy(table.columns.view(np.int64)).to(device)


def write_copies(
    table: AliasTable, levels: Tensor, keys: Tensor, slots: Tensor, copies: Tensor, step: float, out: Tensor
) -> None:
    """``out[i] = step * (levels[slots[i]] + numbers(keys[slots[i]], copies[i]))``; all contiguous, levels (count, size)."""
    size = levels.shape[1]
    grid = (len(slots), triton.cdiv(quarters(size), _BLOCK))
    with torch.cuda.device(levels.device):
        _kernel[grid](
            levels,
            keys,
            slots,
            copies,
            out,
            _on_device(table, levels.device),
            table.first,
            step,
            size,
            quarters(size),
            bits=table.bits,
            BLOCK=_BLOCK,
        )
