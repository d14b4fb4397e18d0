"""Calibrating the Berk-Jones band: how small must each order statistic's share of alpha be, for all to hold at once?

The answer for one (n, alpha, sides) is a single number. A table of common ones ships with Holdfast; others are computed
when first needed and kept in the user's cache folder.
"""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from scipy.special import betaincinv, ndtri

from holdfast.bands.crossing_probability import crossing_probability
from holdfast.files import write_file
from holdfast.scores.exceedances import spread_ranks
from holdfast.scores.rounding import SLACK, probability_down
from holdfast.validation import Sides, per_side

VERSION = 2
"""Changes whenever the indices or the weights do: a calibration of another version is not used."""

_GROWTH = 0.0025
_PRECISION = 1e-7
_ENVIRONMENT = "HOLDFAST_CACHE"
_LONGEST = 32
_MOST = 256
"""Calibrations that are kept. Beyond it, the oldest go: computing one again is a matter of seconds."""


def order_statistics(n: int) -> NDArray[np.int64]:
    """The order statistics that are bounded: all near both ends, then ever sparser, by a quarter of a percent of the distance."""
    return spread_ranks(n, _GROWTH)


def weights(n: int) -> NDArray[np.float64]:
    """How alpha is spent: evenly where p is above 0.93, less and less below.

    A certificate at radius r multiplies errors at ``p = Phi(z)`` by ``exp(r z - r^2 / 2)``: what happens at small p hardly
    matters to it. The weights depend on n alone, never on the samples.
    """
    z = ndtri(1 - order_statistics(n) / (n + 1.0))
    return np.asarray(np.clip(np.exp(2 * (z - 1.5)), 1e-4, 1.0), dtype=np.float64)


def bounds_at(n: int, gamma: float) -> NDArray[np.float64]:
    """Lower bounds on ``P(X >= X_(i))`` at the chosen order statistics, each wrong with probability ``gamma * weight``.

    ``1 - F(X_(i)-)`` is at least ``1 - U_(i)`` in law, which is Beta(n - i + 1, i) distributed, for any distribution F.
    """
    i = order_statistics(n)
    lower = probability_down(
        np.asarray(betaincinv(n - i + 1.0, i, np.minimum(gamma * weights(n), 0.5)), dtype=np.float64)
    )
    # Multiples of 2^-53, so that one minus them is exact: the failure probability is that of these very numbers.
    return np.minimum.accumulate(np.floor(lower * 2.0**53) / 2.0**53)


def failure_probability(n: int, gamma: float, sides: Sides, *, about: float) -> float:
    """The exact probability that one of these bounds fails; with both sides, also those of the reflected score."""
    i = order_statistics(n)
    rising = 1 - bounds_at(n, gamma)
    useful = rising < 1
    times, least, most = rising[useful], i[useful], np.full(int(useful.sum()), n)
    if sides == "both":
        mirrored = (1 - times)[::-1]
        order = np.argsort(np.concatenate((times, mirrored)), kind="stable")
        # The reflected sample's i-th bound fails when U_(n+1-i) < 1 - rising_i, that is when N(1 - rising_i) > n - i.
        least = np.maximum.accumulate(np.concatenate((least, np.zeros_like(least)))[order])
        most = np.concatenate((most, (n - i[useful])[::-1]))[order]
        most = np.minimum.accumulate(most[::-1])[::-1]
        times = np.concatenate((times, mirrored))[order]
    return crossing_probability(n, times, least, most, about=about)


_kept: ContextVar[bool] = ContextVar("kept", default=True)


@contextmanager
def not_kept() -> Iterator[None]:
    """Calibrations computed within are not written to the cache folder, so that requests of strangers cannot fill it."""
    token = _kept.set(False)
    try:
        yield
    finally:
        _kept.reset(token)


@lru_cache(maxsize=256)
def calibrate(n: int, alpha: float, sides: Sides) -> float:
    """The largest gamma (to seven digits, rounded down) with ``failure_probability(n, gamma, sides) <= alpha``.

    For one sample, and where :func:`solve` gives 0, it is smaller than that.
    """
    known = _shipped().get(_key(n, alpha, sides)) or _cached(n, alpha, sides)
    if known is not None:
        return known
    gamma = solve(n, alpha, sides)
    if _kept.get():
        _remember(n, alpha, sides, gamma)
    return gamma


def solve(n: int, alpha: float, sides: Sides) -> float:
    """Find gamma by secant steps on logarithms, where the failure probability is nearly a straight line.

    It is 0, and every bound with it, where n samples can tell nothing at this alpha: a bound L at the smallest sample alone
    fails with probability ``L^n``, so none can be above ``alpha^(1/n)``.
    """
    share = per_side(alpha, sides)
    if n == 1:
        return share
    if math.log(alpha) < n * math.log(SLACK):
        return 0.0

    def off(x: float) -> float:
        return math.log(failure_probability(n, math.exp(x), sides, about=alpha) / alpha)

    x0 = math.log(share / (10 * math.log(n + 2)))
    y0 = off(x0)
    x1 = x0 - y0
    for _ in range(60):
        y1 = off(x1)
        if -_PRECISION < y1 <= 0:
            return math.exp(x1)
        slope = (y1 - y0) / (x1 - x0) if x1 != x0 else 1.0
        x0, y0 = x1, y1
        # Aim a little below alpha, so that the last step lands on the safe side.
        x1 = x1 - (y1 + _PRECISION / 2) / (slope if 0.2 < slope < 5 else 1.0)
    while off(x1) > 0:
        x1 -= 10 * _PRECISION
    return math.exp(x1)


def _key(n: int, alpha: float, sides: Sides) -> str:
    return f"{VERSION}/{n}/{alpha!r}/{sides}"


@lru_cache(maxsize=1)
def _shipped() -> dict[str, float]:
    resource = files("holdfast.bands").joinpath("calibrations.json")
    return {str(key): float(gamma) for key, gamma in json.loads(resource.read_text(encoding="utf-8")).items()}


def cache_folder() -> Path:
    """Where calibrations are kept: ``$HOLDFAST_CACHE``, or Holdfast's part of the user's cache folder."""
    if _ENVIRONMENT in os.environ:
        return Path(os.environ[_ENVIRONMENT])
    return user_cache_path("holdfast", appauthor=False)


def _file(n: int, alpha: float, sides: Sides) -> Path:
    return cache_folder() / "calibrations" / (_key(n, alpha, sides).replace("/", "_") + ".json")


def _cached(n: int, alpha: float, sides: Sides) -> float | None:
    """A kept calibration; a file is believed for what it gives, which is computed again, and not for what it says."""
    try:
        with _file(n, alpha, sides).open("rb") as file:
            gamma = float(file.read(_LONGEST))
    except (OSError, ValueError):
        return None
    if not 0 < gamma < 1:
        return None
    spent = failure_probability(n, gamma, sides, about=alpha)
    return gamma if alpha * (1 - 10 * _PRECISION) < spent <= alpha else None


def _remember(n: int, alpha: float, sides: Sides, gamma: float) -> None:
    """Keep a calibration, and not more than so many, if the folder is writable; failing to is harmless."""
    path = _file(n, alpha, sides)
    with suppress(OSError):
        write_file(path, lambda file: file.write_text(repr(gamma), encoding="ascii"))
        kept = sorted(path.parent.glob(f"{VERSION}_*_*_*.json"), key=lambda each: each.stat().st_mtime)
        for oldest in kept[:-_MOST]:
            oldest.unlink()
