"""Planned looks: after how many copies a certificate may be read while sampling, and the share of alpha of each."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

_FIRST = 500
_LAST_SHARE = 0.5


@dataclass(frozen=True)
class Look:
    """A reading of the first ``n`` copies, which may spend ``share`` of alpha."""

    n: int
    share: float


def plan_looks(n: int) -> tuple[Look, ...]:
    """Looks after 500, 1,000, 2,000, 5,000, ... copies and after all n; a function of n alone.

    Guarantee:
        The shares sum to one. So certificates made at each look, each with its share of alpha, are all true at once with
        probability at least ``1 - alpha`` (Bonferroni), and whoever watches may stop after any of them and keep it. The
        last look has half of alpha: stopping early is paid for by those who do not stop with a little tightness.
    """
    before = [each for each in itertools.takewhile(lambda each: each < n, _rounds()) if 3 * each <= 2 * n]
    if not before:
        return (Look(n, 1.0),)
    each = (1 - _LAST_SHARE) / len(before)
    return (*(Look(at, each) for at in before), Look(n, _LAST_SHARE))


def _rounds() -> Iterator[int]:
    """500, 1,000, 2,000, 5,000, ..."""
    yield _FIRST
    for power in itertools.count(3):
        yield from (10**power, 2 * 10**power, 5 * 10**power)
