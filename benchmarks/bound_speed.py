"""How long a bound takes, against a plain loop over the paper's 10,000 thresholds, in the same run on one core."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
from scipy.stats import norm

import holdfast as hf

N, SIGMA, ALPHA = 100_000, 0.25, 1e-3
RADII = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
THRESHOLDS = 10_000
RESULTS = Path(__file__).with_name("bound_speed.json")


def median_ms(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def plain_loop(values: np.ndarray[tuple[int], np.dtype[np.float64]], radius: float) -> float:
    """The paper's sum, one threshold at a time."""
    ordered = np.sort(values)
    eps = np.sqrt(np.log(1 / ALPHA) / (2 * N))
    total, last = 0.0, 0.0
    for k in range(THRESHOLDS):
        position = k * N // THRESHOLDS
        p = (N - position) / N - eps
        if p <= 0:
            break
        total += (ordered[position] - last) * norm.cdf(norm.ppf(p, scale=SIGMA) - radius, scale=SIGMA)
        last = ordered[position]
    return float(total)


def main() -> None:
    values = 1 / (1 + np.exp(-np.random.default_rng(0).normal(3, 2, N)))
    samples = hf.ScoreSamples(values, sigma=SIGMA)
    histogram = samples.histogram()

    def certificate(scores: hf.Scores) -> object:
        curve = hf.bound(scores, alpha=ALPHA)
        return curve.lower(RADII), curve.radius(at_least=0.5)

    certificate(samples)
    result = {
        "from 100,000 samples, ms": median_ms(lambda: certificate(samples), 30),
        "from their histogram, ms": median_ms(lambda: certificate(histogram), 30),
        "plain loop over 10,000 thresholds, one radius, ms": median_ms(lambda: plain_loop(values, 0.25), 2),
    }
    loop = 7 * result["plain loop over 10,000 thresholds, one radius, ms"]
    result["plain loop, 7 radii, over Holdfast, 7 radii and a radius search"] = (
        loop / result["from 100,000 samples, ms"]
    )
    for name, value in result.items():
        print(f"{name:70s} {value:10.1f}")
    if "--save" in sys.argv:
        machine = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
        RESULTS.write_text(json.dumps({"machine": {"cpu": platform.machine(), **machine}, **result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
