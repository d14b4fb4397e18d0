"""What one caller may ask of the service."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.validation import check_copies, check_count, check_number

MOST_MEASURES = 16
"""What one certificate may be about."""
_LEAST_UPLOAD = 2**21
_LEAST_BODIES = 2**27
_BYTES_PER_NUMBER = 40


@dataclass(frozen=True)
class Limits:
    """Bounds on requests, each refused with a reason before it costs anything.

    Attributes:
        queue: requests that wait or are being answered; a caller may have as many as are free, one more is refused with 429.
        copies: noisy copies of one request.
        seconds: from the moment a request was taken to its answer.
        upload: bytes of a body.
        upload_seconds: how long a body may take to arrive.
        replays: whether callers may give a seed.
    """

    queue: int = 128
    copies: int = 1_000_000
    seconds: float = 300.0
    upload: int = _LEAST_UPLOAD
    upload_seconds: float = 30.0
    replays: bool = True

    def __post_init__(self) -> None:
        check_count("queue", self.queue)
        check_copies("copies", self.copies, at_least=2)
        check_count("upload", self.upload)
        check_number("seconds", self.seconds, at_least=0.001)
        check_number("upload_seconds", self.upload_seconds, at_least=0.001)

    @property
    def bodies(self) -> int:
        """Bytes of all bodies together; a caller may have as many as are free."""
        return max(_LEAST_BODIES, 8 * self.upload)


def upload_for(shape: Sequence[int]) -> int:
    """Enough bytes for an input of this shape written out in decimal, and for a certificate."""
    return max(_LEAST_UPLOAD, 2**16 + _BYTES_PER_NUMBER * math.prod(shape))
