"""What keys the noise: the same (seed, input, stage, copy) always gives the same copy.

Nothing else enters: not the batch size, not the engine, not what was drawn before. The seed is drawn from the operating
system unless one is given, because an adversary who can predict the noise can choose an input for it.
"""

import hmac
import secrets
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from holdfast.errors import InvalidArgument


class Stage(IntEnum):
    """What words are drawn for: noisy copies for one of two purposes, and an order of counted samples. Stages share none."""

    SELECTION = 0
    ESTIMATION = 1
    ORDER = 2


def secret_seed() -> int:
    """128 bits from the operating system."""
    return secrets.randbits(128)


def derived_seed(secret: bytes, kind: str, x: ArrayLike) -> int:
    """The same for the same numbers, in float32, and kind of question, however often and with whatever else it is asked.

    **Guarantee**: whoever does not know the secret cannot tell it from a random one before it is used, and gets no other
    copies of an input by asking again, with another n, alpha, radius or confidence.

    **Requires** that the secret is kept. The two zeros of an input on the grid are one number, and have one seed.
    """
    message = kind.encode() + b"\0" + (np.asarray(x, dtype=np.float32) + 0.0).tobytes()
    return int.from_bytes(hmac.digest(secret, message, "sha256")[:16])


def check_seed(seed: int | None) -> int:
    """The given seed, or a secret one."""
    if seed is None:
        return secret_seed()
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**128:
        raise InvalidArgument(f"seed must be a whole number in [0, 2^128), or None for a secret one, got {seed!r}")
    return seed
