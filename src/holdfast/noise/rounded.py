"""Noise rounded to a grid: whole numbers of steps, drawn from a table whose probabilities are exact to 64 bits.

Floating-point noise lets a network see, in the last bits of ``x + delta``, which x it came from. Whole numbers do not: the
classifier that is certified rounds its input to the grid first, and for an x on the grid its noisy copies are
``step * (K + N)`` with independent whole numbers N. See docs/mathematics.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument
from holdfast.noise.noise import Noise

BYTE = 1 / 255
"""The step between the levels of an image of bytes."""
_FINEST = 4_096
_WORD = 2**64
_NEGLIGIBLE = 2.0**-66
_LONGEST = 1_000
_MOST_STEPS = 2**16
"""To either side: more, and rounding their probabilities to 64 bits would add up."""
_PREFIX = 16
_UNDECIDED = np.iinfo(np.int32).min


@lru_cache(maxsize=64)
def default_step(noise: Noise, *, bytes_: bool) -> float:
    """1/255 for images of bytes; else the largest power of two that is at most the noise's scale / 4,096.

    Another for a noise so wide, or with such long tails, that its table would not be exact enough.
    """
    if bytes_ and _reach(noise, BYTE) <= _MOST_STEPS * BYTE:
        return BYTE
    finest = 2.0 ** math.floor(math.log2(noise.scale / _FINEST))
    return max(finest, 2.0 ** math.ceil(math.log2(_reach(noise, finest) / _MOST_STEPS)))


def _reach(noise: Noise, step: float) -> float:
    """How far from zero an interval of this width has any probability that 64 bits can tell."""
    reach = noise.scale
    while float(noise.probability(np.full(1, reach), step)[0]) > _NEGLIGIBLE:
        reach *= 1.125
        if reach > _LONGEST * noise.scale + step:
            raise InvalidArgument(
                f"{noise.kind} noise must hardly ever be more than {_LONGEST:,} times its scale; mend its probability()"
            )
    return reach


def describe_step(step: float) -> str:
    """``1/255``, ``2^-14``, or the number."""
    exponent = math.log2(step)
    if step == BYTE:
        return "1/255"
    return f"2^{exponent:.0f}" if exponent == round(exponent) else repr(step)


@dataclass(frozen=True, eq=False)
class AliasTable:
    """A distribution of whole numbers, each drawn from one 64-bit word with one look-up.

    The word's first ``bits`` bits choose a column, which has a number of its own, ``first + column``. If the other bits are
    not below the column's bound, the number is that of another column, its alias.

    Attributes:
        columns: of each, its bound in the first ``64 - bits`` bits, and its alias in the others.
    Source:
        A. J. Walker, "An efficient method for generating discrete random variables with general distributions", ACM TOMS 3
        (1977); M. D. Vose, IEEE Trans. Software Engineering 17 (1991). Here in whole numbers, without rounding.
    """

    first: int
    bits: int
    columns: NDArray[np.uint64]

    @classmethod
    def of(cls, first: int, weights: list[int]) -> "AliasTable":
        """Of the numbers ``first``, ``first + 1``, ..., with probabilities ``weights / 2^64``, which sum to one."""
        bits = max(1, (len(weights) - 1).bit_length())
        count, full = 2**bits, _WORD >> bits
        left = weights + [0] * (count - len(weights))
        bounds, alias = [0] * count, list(range(count))  # a full column is its own alias: its bound does not matter
        short = [column for column in range(count) if left[column] < full]
        ample = [column for column in range(count) if left[column] > full]
        while short:
            column, giver = short.pop(), ample[-1]
            bounds[column], alias[column] = left[column], giver
            left[giver] -= full - left[column]
            if left[giver] <= full:
                ample.pop()
                if left[giver] < full:
                    short.append(giver)
        packed = [bound << bits | other for bound, other in zip(bounds, alias, strict=True)]
        return cls(first, bits, np.array(packed, dtype=np.uint64))

    def draw(self, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        """One number from each word."""
        if self._prefix_table is None:
            return self._looked_up(words)
        found = self._prefix_table.take((words >> np.uint64(64 - _PREFIX)).view(np.int64), mode="clip")
        undecided = np.nonzero(found == _UNDECIDED)
        found[undecided] = self._looked_up(words[undecided])
        return found

    @cached_property
    def _prefix_table(self) -> NDArray[np.int32] | None:
        """The number of all words with the same first bits; a few undecided. None where that would be many.

        In a column a number gives way to its alias once, so that words between two that have one number have it, too.
        """
        if self.bits > _PREFIX - 4:
            return None
        first = np.arange(2**_PREFIX, dtype=np.uint64) << np.uint64(64 - _PREFIX)
        low, high = self._looked_up(first), self._looked_up(first | np.uint64(2 ** (64 - _PREFIX) - 1))
        return np.where(low == high, low, _UNDECIDED)

    def _looked_up(self, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        bits, others = np.uint64(self.bits), np.uint64(2**self.bits - 1)
        column = words >> np.uint64(64 - self.bits)
        found = self.columns.take(column.view(np.int64), mode="clip")
        alias = found & others
        found ^= alias
        np.copyto(column, alias, where=(words << bits) >= found)
        return column.astype(np.int32) + np.int32(self.first)


@lru_cache(maxsize=8)
def rounded_table(noise: Noise, step: float) -> AliasTable:
    """The number of steps N of noise rounded to the grid: ``P(N = i) = P((i - 1/2) step < delta <= (i + 1/2) step)``.

    Guarantee:
        What is drawn from uniform words has a distance of at most 2^-48 in total variation to this distribution, if the
        noise's ``probability`` is accurate to the last digit: 2^17 probabilities are each rounded by at most 2^-65. It is about
        2^-53 for Gaussian noise on images of bytes.
    """
    most = math.ceil(_reach(noise, step) / step)
    if most > _MOST_STEPS:
        raise InvalidArgument(
            f"step must be at least {default_step(noise, bytes_=False)!r} for {noise.title}, got {step!r}: finer noise could "
            f"not be drawn exactly enough"
        )
    p = noise.probability(np.multiply(np.arange(-most, most + 1), step, dtype=np.float64), step)
    weights = [int(each) for each in np.rint(p * 2.0**64)]
    missing = _WORD - sum(weights)
    if not abs(missing) <= _WORD >> 50:
        raise InvalidArgument(
            f"the probabilities of {noise.kind} noise must sum to one over all intervals, got {sum(weights) / _WORD!r}; "
            f"mend its probability()"
        )
    weights[int(np.argmax(p))] += missing
    occupied = np.flatnonzero([weight > 0 for weight in weights])
    low, high = int(occupied[0]), int(occupied[-1])
    return AliasTable.of(low - most, weights[low : high + 1])
