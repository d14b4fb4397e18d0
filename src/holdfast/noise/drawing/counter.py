"""Float32 Gaussian copies by counter, what Holdfast 0.1.0 drew on a GPU: in one pass with Triton, else by the definition itself."""

from functools import cache
from importlib.util import find_spec

import numpy as np
from torch import Tensor

from holdfast.noise.drawing.philox import standard_normals
from holdfast.noise.seed import Stage

GENERATOR = "philox4x32-10"


def key_words(seed: int, index: int, stage: Stage) -> list[int]:
    """Three 32-bit words that key the counters of all copies of one input."""
    words = np.random.SeedSequence(seed, spawn_key=(index, int(stage))).generate_state(3, np.uint32)
    return [int(word) for word in words]


def add_noise(inputs: Tensor, keys: Tensor, slots: Tensor, copies: Tensor, sigma: float, out: Tensor) -> None:
    """``out[i] = inputs[slots[i]] + sigma * normals(keys[slots[i]], copies[i])``.

    ``inputs`` is (count, size) float32, ``keys`` (count, 3) words, ``slots`` and ``copies`` (rows,), ``out`` (rows, size).
    """
    if inputs.is_cuda and _has_triton():
        from holdfast.noise.drawing.philox_cuda import add_noise as add_noise_in_one_pass

        add_noise_in_one_pass(inputs, keys, slots, copies, sigma, out)
        return
    out.copy_(standard_normals(keys[slots], copies, inputs.shape[1])).mul_(sigma).add_(inputs[slots])


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
