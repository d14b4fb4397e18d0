"""Noise in blocks, each from a stream of its own that (seed, input, stage, block) keys; for every kind of noise."""

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
