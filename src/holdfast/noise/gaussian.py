"""Gaussian noise, keyed: the same (seed, input, stage, copy) always gives the same copy.

Nothing else enters: not the batch size, not the engine, not what was drawn before. On a CPU copies are drawn in blocks,
each a stream of its own; on a GPU every number is a function of its own counter. The seed is drawn from the operating
system unless one is given, because an adversary who can predict the noise can choose an input for it.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import InvalidArgument
from holdfast.validation import check_sigma

_MOST_ROWS = 1_000
_MOST_NUMBERS = 2**22


class Stage(IntEnum):
    """What noisy copies are for; the two never share any."""

    SELECTION = 0
    ESTIMATION = 1


@dataclass(frozen=True)
class BlockKey:
    """Names one block of noise."""

    seed: int
    index: int
    stage: Stage
    block: int


@dataclass(frozen=True)
class Gaussian:
    """Isotropic Gaussian noise of standard deviation ``sigma`` in the units of the input."""

    sigma: float

    def __post_init__(self) -> None:
        check_sigma(self.sigma)

    @property
    def multiplier(self) -> float:
        """Sigma as float32, rounded up: noise a hair wider than certified for makes every bound hold with room to spare.

        What is drawn is standard normal to about seven digits, here as everywhere: a bound would notice in its sixth.
        """
        near = np.float32(self.sigma)
        return float(near if float(near) >= self.sigma else np.nextafter(near, np.float32(np.inf)))

    @staticmethod
    def name(device: torch.device) -> str:
        """Which generator draws on this device; recorded, since another would draw other copies."""
        return "gaussian/numpy-sfc64" if device.type == "cpu" else "gaussian/philox4x32-10"

    @staticmethod
    def block_rows(shape: Sequence[int]) -> int:
        """Copies in a block: a function of the input's size alone, so that a block never takes more than 16 MB."""
        return max(1, min(_MOST_ROWS, _MOST_NUMBERS // math.prod(shape)))

    def standard_block(self, key: BlockKey, shape: Sequence[int], rows: int | None = None) -> Tensor:
        """A block of standard normal numbers, (block_rows, *shape), float32, on the CPU; or its first ``rows`` rows.

        A stream is drawn in order, so the first rows are the same however many follow.
        """
        stream = np.random.SeedSequence(key.seed, spawn_key=(key.index, int(key.stage), key.block))
        generator = np.random.Generator(np.random.SFC64(stream))
        return torch.from_numpy(generator.standard_normal((rows or self.block_rows(shape), *shape), dtype=np.float32))

    @staticmethod
    def key_words(seed: int, index: int, stage: Stage) -> list[int]:
        """Three 32-bit words that key the counters of all copies of one input."""
        words = np.random.SeedSequence(seed, spawn_key=(index, int(stage))).generate_state(3, np.uint32)
        return [int(word) for word in words]


def secret_seed() -> int:
    """128 bits from the operating system."""
    return secrets.randbits(128)


def check_seed(seed: int | None) -> int:
    """The given seed, or a secret one."""
    if seed is None:
        return secret_seed()
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**128:
        raise InvalidArgument(f"seed must be a whole number in [0, 2^128), or None for a secret one, got {seed!r}")
    return seed
