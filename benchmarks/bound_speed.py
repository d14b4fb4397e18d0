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

import holdfast as hf
from plain import RADII, plain_bound

N, SIGMA, ALPHA = 100_000, 0.25, 1e-3
RESULTS = Path(__file__).with_name("bound_speed.json")


def median_ms(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


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
        "plain loop over 10,000 thresholds, one radius, ms": median_ms(
            lambda: plain_bound(values, 0.25, sigma=SIGMA, alpha=ALPHA), 2
        ),
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
