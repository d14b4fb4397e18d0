"""Which order statistics to look at."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=256)
def spread_ranks(n: int, growth: float) -> NDArray[np.int64]:
    """Ranks from 1 to n: all of them near both ends, then ever sparser, by a share ``growth`` of the distance to the end."""
    chosen = [1]
    while chosen[-1] < n:
        i = chosen[-1]
        chosen.append(min(n, i + max(1, int(growth * min(i, n - i)))))
    ranks = np.array(chosen, dtype=np.int64)
    ranks.flags.writeable = False
    return ranks
