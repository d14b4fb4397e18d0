"""The smallest n that can certify anything, even if every noisy copy agrees completely."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from holdfast.bounds import Method, bound
from holdfast.certificates.proportions import clopper_pearson_lower
from holdfast.errors import InvalidArgument
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise
from holdfast.scores import ScoreSamples
from holdfast.validation import Sides

_MOST, _MOST_SCORES = 2**40, 2**22


@lru_cache(maxsize=64)
def smallest_n_for_label(alpha: float) -> int:
    """The smallest n for which a unanimous vote certifies the label at the input itself."""
    return _first(lambda n: clopper_pearson_lower(n, n, alpha) > 0.5, _MOST, "label", alpha)


def smallest_n(measure: MeasureInfo, alpha: float, sides: Sides, method: Method, noise: Noise) -> int:
    """The smallest n for which scores at the top of their support certify the class at the input itself.

    A measure that no average of makes the class the prediction asks for nothing.
    """
    try:
        hash((method, noise))
    except TypeError:  # somebody's own, which may change
        return _search.__wrapped__(measure, alpha, sides, method, noise)
    return _search(measure, alpha, sides, method, noise)


def check_enough(n: int, alpha: float, needed: Mapping[str, int]) -> None:
    """Refuse an n that is less than some claim needs; the claims share alpha."""
    short = [claim for claim, least in needed.items() if n < least]
    if short:
        each = f" (each of {len(needed)} claims takes {alpha / len(needed):.3g} of it)" if len(needed) > 1 else ""
        raise InvalidArgument(
            f"n = {n:,} can never certify the {' or the '.join(short)} at alpha = {alpha:g}{each}, "
            f"even if every noisy copy agrees; at least {max(needed.values()):,} are needed"
        )


# Settings may be made for every input: the search would take longer than choosing its class.
@lru_cache(maxsize=64)
def _search(measure: MeasureInfo, alpha: float, sides: Sides, method: Method, noise: Noise) -> int:
    if measure.winning is None:
        return 1
    winning, support = measure.winning, measure.support

    def enough(n: int) -> bool:
        agreed = ScoreSamples(np.full(n, support[1]), support=support, noise=noise)
        return bound(agreed, alpha=alpha, method=method, sides=sides).lower(0.0) > winning

    return _first(enough, _MOST_SCORES, f"{measure.name} with {method.name}", alpha)


def _first(enough: Callable[[int], bool], most: int, what: str, alpha: float) -> int:
    """The smallest n that is enough, given that more are enough too."""
    high = 1
    while not enough(high):
        high *= 2
        if high > most:
            raise InvalidArgument(
                f"up to {most:,} samples, no number certifies the {what} at alpha = {alpha:g}, even if every noisy copy agrees; "
                f"ask for a smaller radius or a larger alpha"
            )
    return bisect_left(range(high), True, lo=high // 2 + 1, key=enough)
