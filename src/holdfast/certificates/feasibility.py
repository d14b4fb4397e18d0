"""How many samples could certify anything at all: said before sampling, not after."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from holdfast.bounds import Method, bound
from holdfast.certificates.label import clopper_pearson_lower
from holdfast.errors import InvalidArgument
from holdfast.scores import ScoreSamples
from holdfast.validation import Sides

_MOST = 2**40


def check_feasible(n: int, *, alpha: float, claims: Sequence[str], sides: Sides, method: Method) -> None:
    """Refuse an n with which some claim could not certify its class even if every copy agreed completely."""
    share = alpha / len(claims)
    needed = {claim: smallest_n(claim, share, sides, method) for claim in claims}
    most = max(needed.values())
    if n < most:
        short = [claim for claim in claims if n < needed[claim]]
        each = f" (each of {len(claims)} claims takes {share:.3g} of it)" if len(claims) > 1 else ""
        raise InvalidArgument(
            f"n = {n:,} can never certify the {' or the '.join(short)} at alpha = {alpha:g}{each}, "
            f"even if every noisy copy agrees; at least {most:,} are needed"
        )


def smallest_n(claim: str, alpha: float, sides: Sides, method: Method) -> int:
    """The smallest n for which full agreement certifies the class at the input itself."""
    try:
        hash(method)
    except TypeError:  # somebody's own method, which may change
        return _search(claim, alpha, sides, method)
    return _remembered(claim, alpha, sides, method)


def _search(claim: str, alpha: float, sides: Sides, method: Method) -> int:
    def enough(n: int) -> bool:
        if claim == "label":
            return clopper_pearson_lower(n, n, alpha) > 0.5
        return bound(ScoreSamples(np.ones(n), sigma=1.0), alpha=alpha, method=method, sides=sides).lower(0.0) > 0.5

    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise InvalidArgument(f"no number of samples certifies the {claim} at alpha = {alpha:g} with {method.name}")
    low = high // 2
    while high - low > 1:
        middle = math.ceil((low + high) / 2)
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


# Settings are made for every input: the search would take longer than choosing its class.
_remembered = lru_cache(maxsize=64)(_search)
