"""The paper's procedure, written plainly: what Holdfast is measured against.

Noisy copies of one image in batches of 1,000 through the network as it is, in float32 with torch's defaults (which let GPUs round
convolutions to TensorFloat-32), scores to the host, and then, for each of seven radii, the sum of Theorem 2 over 10,000
thresholds, one at a time with SciPy's ``norm``: so the published code does it, in about a second a radius. A sum over arrays takes
milliseconds instead; the seconds of sampling and of bounds are therefore reported apart.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor, nn

BATCH = 1_000
THRESHOLDS = 10_000
RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True)
class PlainSeconds:
    """What one image takes."""

    sampling: float
    bounds: float

    @property
    def total(self) -> float:
        return self.sampling + self.bounds


def plain_scores(net: nn.Module, x: Tensor, *, sigma: float, n: int, batch: int = BATCH) -> NDArray[np.float64]:
    """Softmax scores of all classes for n noisy copies of x."""
    found = []
    with torch.no_grad():
        for start in range(0, n, batch):
            copies = x.repeat((min(batch, n - start), 1, 1, 1))
            found.append(torch.softmax(net(copies + sigma * torch.randn_like(copies)), dim=1).cpu().numpy())
    return np.concatenate(found).astype(np.float64)


def plain_bound(scores: NDArray[np.float64], radius: float, *, sigma: float, alpha: float) -> float:
    """The paper's Theorem 2 with the DKW band, one threshold at a time."""
    n = len(scores)
    ordered = np.sort(scores)
    eps = np.sqrt(np.log(1 / alpha) / (2 * n))
    total, last = 0.0, 0.0
    for k in range(THRESHOLDS):
        position = k * n // THRESHOLDS
        p = (n - position) / n - eps
        if p <= 0:
            break
        total += (ordered[position] - last) * norm.cdf(norm.ppf(p, scale=sigma) - radius, scale=sigma)
        last = ordered[position]
    return float(total)


def plain_certificate(net: nn.Module, x: Tensor, *, sigma: float, n: int, n0: int, alpha: float) -> PlainSeconds:
    """One image, one measure, as the paper certifies it."""
    begin = time.perf_counter()
    chosen = int(plain_scores(net, x, sigma=sigma, n=n0).mean(0).argmax())
    scores = plain_scores(net, x, sigma=sigma, n=n)[:, chosen]
    sampled = time.perf_counter()
    for radius in RADII:
        plain_bound(scores, radius, sigma=sigma, alpha=alpha)
    return PlainSeconds(sampled - begin, time.perf_counter() - sampled)
