"""Noisy copies on a GPU in one pass: the numbers of :mod:`holdfast.noise.drawing.philox`, times sigma, on top of the inputs."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_BLOCK = 1_024


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    inputs,
    keys,
    slots,
    copies,
    out,
    sigma,
    size,
    quarters,
    scale: tl.constexpr,
    turn: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row)
    copy = tl.load(copies + row)
    key = tl.load(keys + 3 * slot) | (tl.load(keys + 3 * slot + 1) << 32)
    third = tl.load(keys + 3 * slot + 2)
    zero = tl.zeros([BLOCK], tl.int32)
    low = zero + (copy & 0xFFFFFFFF).to(tl.int32)
    high = zero + (copy >> 32).to(tl.int32)
    a, b, c, d = tl.philox(key, place, low, high, zero + third.to(tl.int32))
    half: tl.constexpr = 0.5 * scale
    first = tl.sqrt(tl.maximum(-2 * tl.log(a.to(tl.uint32, bitcast=True).to(tl.float32) * scale + half), 0.0))
    second = tl.sqrt(tl.maximum(-2 * tl.log(c.to(tl.uint32, bitcast=True).to(tl.float32) * scale + half), 0.0))
    # Angles from minus to plus half a turn, where the fast functions are accurate to a few units in the seventh digit.
    one = b.to(tl.int32, bitcast=True).to(tl.float32) * turn
    two = d.to(tl.int32, bitcast=True).to(tl.float32) * turn
    there = place < quarters
    for plane in tl.static_range(4):
        if plane == 0:
            normal = first * libdevice.fast_cosf(one)
        elif plane == 1:
            normal = first * libdevice.fast_sinf(one)
        elif plane == 2:
            normal = second * libdevice.fast_cosf(two)
        else:
            normal = second * libdevice.fast_sinf(two)
        where = plane * quarters + place
        inside = there & (where < size)
        x = tl.load(inputs + slot * size + where, mask=inside, other=0.0)
        tl.store(out + row * size + where, x + sigma * normal, mask=inside)


def add_noise(inputs: Tensor, keys: Tensor, slots: Tensor, copies: Tensor, sigma: float, out: Tensor) -> None:
    """``out[i] = inputs[slots[i]] + sigma * normals(keys[slots[i]], copies[i])``; all contiguous, inputs (count, size)."""
    size = inputs.shape[1]
    quarters = -(-size // 4)
    grid = (len(slots), triton.cdiv(quarters, _BLOCK))
    with torch.cuda.device(inputs.device):
        _kernel[grid](
            inputs,
            keys,
            slots,
            copies,
            out,
            sigma,
            size,
            quarters,
            scale=2.0**-32,
            turn=2 * math.pi * 2.0**-32,
            BLOCK=_BLOCK,
        )
