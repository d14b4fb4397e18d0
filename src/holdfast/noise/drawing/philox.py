"""Counter-based normal numbers: each can be computed alone, so the order and the place of drawing do not matter.

The number at (key, copy, place) is a function of these three. Philox 4x32-10 turns a counter of four words (place, copy,
and the key's third word) under a key of two words into four random words, and Box-Muller turns those into four normal
numbers. This file defines the numbers, in plain torch, on any device; :mod:`holdfast.noise.drawing.philox_cuda` draws the same ones
on a GPU in one pass.

Source:
    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

import math

import torch
from torch import Tensor

ROUNDS = 10
_WORD = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Four random words from four words under a key of two; all are int64 tensors that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _product(c0, _MULTIPLIERS[0])
        high1, low1 = _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


def standard_normals(keys: Tensor, copies: Tensor, size: int) -> Tensor:
    """``size`` standard normal float32 numbers per row; row i is copy ``copies[i]`` under the three words ``keys[i]``.

    Place p takes word pair p // (2 quarters) of counter p % quarters: neighbours in memory come from neighbouring counters.
    """
    quarters = -(-size // 4)
    place = torch.arange(quarters, device=keys.device)[None]
    copy = copies[:, None]
    k0, k1, third = (keys[:, word, None] for word in range(3))
    counter = (place, copy & _WORD, (copy >> 32) & _WORD, third)
    a, b, c, d = (word.expand(len(keys), quarters) for word in philox(counter, (k0, k1)))
    return torch.cat((*_normal_pair(a, b), *_normal_pair(c, d)), dim=1)[:, :size]


def _product(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """High and low word of a product; int64 wraps around, and the wrapped bits are the right ones."""
    product = word * factor
    return (product >> 32) & _WORD, product & _WORD


def _normal_pair(radius_word: Tensor, angle_word: Tensor) -> tuple[Tensor, Tensor]:
    """Two independent normal numbers from two words."""
    uniform = radius_word.float() * 2.0**-32 + 2.0**-33
    radius = (-2 * uniform.log()).clamp_min(0).sqrt()
    angle = angle_word.float() * (2 * math.pi * 2.0**-32)
    return radius * angle.cos(), radius * angle.sin()
