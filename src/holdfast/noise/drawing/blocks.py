"""Float32 noise in blocks, each from a stream of its own that (seed, input, stage, block) keys: what Holdfast 0.1.0 drew on a CPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holdfast.noise.noise import Noise
from holdfast.noise.seed import Stage

GENERATOR = "numpy-sfc64"
"""Recorded with a run: another generator would draw other copies."""
_MOST_ROWS = 1_000
_MOST_NUMBERS = 2**22


@dataclass(frozen=True)
class BlockKey:
    """Names one block of noise."""

    seed: int
    index: int
    stage: Stage
    block: int


def block_rows(shape: Sequence[int]) -> int:
    """Copies in a block: a function of the input's size alone, so that a block never takes more than 16 MB."""
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // math.prod(shape)))


def standard_block(noise: Noise, key: BlockKey, shape: Sequence[int], rows: int | None = None) -> Tensor:
    """A block of standard numbers, (block_rows, *shape), float32, on the CPU; or its first ``rows`` rows.

    A stream is drawn in order, so the first rows are the same however many follow.
    """
    stream = np.random.SeedSequence(key.seed, spawn_key=(key.index, int(key.stage), key.block))
    generator = np.random.Generator(np.random.SFC64(stream))
    return torch.from_numpy(noise.standard(generator, (rows or block_rows(shape), *shape)))


def multiplier(noise: Noise) -> float:
    """The scale as float32, rounded up: noise a hair wider than certified for makes every bound hold with room to spare.

    What is drawn follows its law to about seven digits: a bound would notice in its sixth.
    """
    near = np.float32(noise.scale)
    return float(near if float(near) >= noise.scale else np.nextafter(near, np.float32(np.inf)))
