"""Whole numbers of steps by counter: each can be drawn alone, on any device, and is the same on all of them.

Number p of copy c takes word ``c * ceil(d / 4) * 4 + p`` of NumPy's Philox 4x64-10 stream under the input's key, where d is how
many numbers an input has; those of an image are counted with its channels last. NumPy draws them on a CPU, which defines
them; :mod:`holdfast.noise.drawing.steps_cuda` draws the same ones on a GPU in one pass.

Source:
    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.noise.rounded import AliasTable
from holdfast.noise.seed import Stage

AT_ONCE = 2**15
"""Numbers drawn together: what fits a core's cache, and memory that is not asked of the system anew."""
GENERATOR = "philox4x64-10"
"""Recorded with a run: another generator would draw other copies."""


def key_words(seed: int, index: int, stage: Stage) -> NDArray[np.uint64]:
    """Three words that key all copies of one input: the first is Philox's key, the others are part of its counter."""
    words = np.random.SeedSequence(seed, spawn_key=(index, int(stage))).generate_state(3, np.uint64)
    return words.astype(np.uint64, copy=False)


def quarters(size: int) -> int:
    """Philox's blocks of four words that a copy of ``size`` numbers takes."""
    return -(-size // 4)


def draw_steps(table: AliasTable, key: NDArray[np.uint64], first: int, rows: int, size: int) -> NDArray[np.int32]:
    """The numbers of ``rows`` copies from copy ``first`` on, (rows, size)."""
    word, *rest = key
    counter = np.array([first * quarters(size), 0, *rest], dtype=np.uint64)
    stream = np.random.Philox(key=np.array([word, 0], dtype=np.uint64), counter=counter)
    words = rows * 4 * quarters(size)
    parts = [table.draw(stream.random_raw(min(AT_ONCE, words - start))) for start in range(0, words, AT_ONCE)]
    drawn = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return drawn.reshape(rows, -1)[:, :size]


@cache
def has_kernel(device: torch.device) -> bool:
    """Whether a GPU can draw them by itself."""
    return device.type == "cuda" and find_spec("triton") is not None
