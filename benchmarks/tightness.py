"""What a certificate loses against infinitely many samples, as a share of what the paper's bound loses."""

import json
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

import holdfast as hf
from holdfast.bands.calibration import solve

N, ALPHA, SEEDS = 100_000, 1e-3, 10
RADII = np.array([1.0, 2.0, 3.0])
MIDWAY = RADII + 1 / 16
"""Between two knots of ``Tangents()``, which are an eighth apart; at ``RADII`` it has knots."""
BOTH = np.concatenate((RADII, MIDWAY))
MIXTURES = {
    "(1,1)": [(1.0, 1, 1)],
    "(3,2)": [(1.0, 3, 2)],
    "(6,2)": [(1.0, 6, 2)],
    "(8,2)": [(1.0, 8, 2)],
    "mixture": [(0.98, 6, 2), (0.02, -2, 1)],
}
RESULTS = Path(__file__).with_name("tightness.json")
Mixture = list[tuple[float, int, int]]


def sample(rng: np.random.Generator, mixture: Mixture, n: int) -> NDArray[np.float64]:
    which = rng.choice(len(mixture), p=[weight for weight, _, _ in mixture], size=n)
    means, sds = (np.array([part[k] for part in mixture]) for k in (1, 2))
    return np.asarray(expit(rng.normal(means[which], sds[which])))


def oracle(mixture: Mixture) -> NDArray[np.float64]:
    """The bound at the exact distribution, by quadrature over the logit."""
    y = np.linspace(-25.0, 40.0, 200_001)
    score = expit(y)
    p = sum(weight * ndtr((mean - y) / sd) for weight, mean, sd in mixture)
    z = ndtri(np.clip(p, 0.0, 1.0))
    return np.array([np.trapezoid(ndtr(z - r) * score * (1 - score), y) for r in BOTH])


def whole(method: hf.Method, scores: hf.ScoreSamples) -> NDArray[np.float64]:
    return hf.bound(scores, alpha=ALPHA, method=method).lower(BOTH)


def aimed(scores: hf.ScoreSamples) -> NDArray[np.float64]:
    return np.array([hf.bound(scores, alpha=ALPHA, method=hf.Tangent(float(r))).lower(float(r)) for r in BOTH])


def shares(gaps: list[NDArray[np.float64]], paper: NDArray[np.float64], at: slice) -> dict[str, float]:
    found = np.array(gaps)[:, at]
    return {
        "average of ratios": float((found / paper[:, at]).mean()),
        "ratio of averages": float(found.sum() / paper[:, at].sum()),
    }


def main() -> None:
    gaps: dict[str, list[NDArray[np.float64]]] = {"paper": [], "berk-jones": [], "tangents": [], "targeted": []}
    tenth = []
    for mixture in MIXTURES.values():
        truth = oracle(mixture)
        for seed in range(SEEDS):
            values = sample(np.random.default_rng(seed), mixture, N)
            scores = hf.ScoreSamples(values, sigma=1.0)
            gaps["paper"].append(truth - whole(hf.CDF(hf.DKW()), scores))
            gaps["berk-jones"].append(truth - whole(hf.CDF(hf.BerkJones()), scores))
            gaps["tangents"].append(truth - whole(hf.Tangents(), scores))
            gaps["targeted"].append(truth - aimed(scores))
            tenth.append(truth - whole(hf.CDF(hf.BerkJones()), hf.ScoreSamples(values[: N // 10], sigma=1.0)))
    paper = np.array(gaps["paper"])
    at_knots, midway = slice(0, len(RADII)), slice(len(RADII), None)
    rows = {name: {**shares(g, paper, at_knots), "midway": shares(g, paper, midway)} for name, g in gaps.items()}
    few = {f"r = {r:g}": float((paper - np.array(tenth)).mean(axis=0)[k]) for k, r in enumerate(RADII)}
    for name, row in rows.items():
        print(name, json.dumps(row))
    print(
        "Berk-Jones at n = 10,000 less the paper's at n = 100,000:",
        {key: round(value, 4) for key, value in few.items()},
    )
    start = time.perf_counter()
    solve(N, ALPHA, "lower")
    seconds = time.perf_counter() - start
    print(f"a new calibration at n = {N:,}: {seconds:.2f} s")
    if "--save" in sys.argv:
        content = {
            "n": N,
            "alpha": ALPHA,
            "seeds": SEEDS,
            **rows,
            "at a tenth of the samples": few,
            "calibration_s": seconds,
        }
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
