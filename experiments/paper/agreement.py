"""Rank correlation with intervals: how far one number orders inputs as another does, and which of several does it better."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
RESAMPLES = 5_000
SEED = 20_200_611
_CHUNK = 500


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% bootstrap percentile interval; not a number where a rank correlation is undefined."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval is on one side of zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        if np.isnan(self.estimate):
            return "undefined"
        return f"{self.estimate:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@dataclass(frozen=True)
class Agreement:
    """Spearman's rho of each quantity with a target, and the differences to a reference on the same resamples."""

    inputs: int
    rho: dict[str, Interval]
    less_reference: dict[str, Interval]


def spearman(x: Floats, y: Floats) -> Floats:
    """Spearman's rho along the last axis: Pearson's correlation of the ranks, ties at their average rank."""
    a, b = (rankdata(each, axis=-1) for each in (x, y))
    a, b = (each - each.mean(axis=-1, keepdims=True) for each in (a, b))
    scale = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    rho = np.divide((a * b).sum(axis=-1), scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return np.asarray(rho, dtype=np.float64)


def agreement(
    target: Floats,
    quantities: Mapping[str, Floats],
    *,
    reference: str | None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Agreement:
    """Correlate each quantity with the target; inputs are resampled, the same ones for every quantity."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[Floats]] = {name: [] for name in quantities}
    for start in range(0, resamples, _CHUNK):
        rows = rng.integers(0, target.size, size=(min(_CHUNK, resamples - start), target.size))
        for name, values in quantities.items():
            drawn[name].append(spearman(values[rows], target[rows]))
    samples = {name: np.concatenate(parts) for name, parts in drawn.items()}
    whole = {name: float(spearman(values, target)) for name, values in quantities.items()}
    return Agreement(
        inputs=int(target.size),
        rho={name: _interval(whole[name], samples[name]) for name in quantities},
        less_reference={
            name: _interval(whole[name] - whole[reference], samples[name] - samples[reference])
            for name in quantities
            if reference is not None and name != reference
        },
    )


def without_nan(value: Any) -> Any:
    """For JSON, which has no nan: what is undefined becomes null."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value


def _interval(estimate: float, samples: Floats) -> Interval:
    known = samples[~np.isnan(samples)]
    if np.isnan(estimate) or known.size == 0:
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(estimate, float(low), float(high))
