"""Noise on the grid: what a number costs next to the float32 noise of Holdfast 0.1.0, and a chi-square of many draws.

python benchmarks/noise.py --draws 100000000 --sizes 3x32x32 3x224x224
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy import stats

from holdfast.noise import BYTE, Gaussian, Stage, rounded_table
from holdfast.noise.drawing.steps import draw_steps, key_words
from holdfast.sampling.batches import Share, batches_for
from holdfast.sampling.span import Counting, NoiseSpan

NOISE = Gaussian(0.25)


def chi_square(draws: int) -> tuple[float, int]:
    """The p-value of that many whole numbers against the probabilities, and how many cells there were."""
    table = rounded_table(NOISE, BYTE)
    counts = np.zeros(4_097, dtype=np.int64)
    key, size = key_words(0, 0, Stage.ESTIMATION), 2**17
    for row in range(-(-draws // size)):
        counts += np.bincount(draw_steps(table, key, row, 1, size).ravel() + 2_048, minlength=4_097)
    expected = counts.sum() * NOISE.probability(np.multiply(np.arange(4_097) - 2_048, BYTE, dtype=np.float64), BYTE)
    cells = expected > 5
    # What is rarer counts as one cell.
    seen = np.append(counts[cells], counts[~cells].sum())
    wanted = np.append(expected[cells], expected[~cells].sum())
    return float(stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue), int(cells.sum())


def nanoseconds(draw: Callable[[], object], numbers: int, device: torch.device, repeats: int = 5) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        draw()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best / numbers * 1e9


def cost(shape: tuple[int, ...], step: float, device: torch.device) -> float:
    """Nanoseconds for each number of noisy copies in batches."""
    x = torch.rand(shape)
    batch = max(8, min(2_512, 2**28 // x.numel())) if device.type == "cuda" else max(8, min(64, 2**18 // x.numel()))
    copies = (40 if device.type == "cuda" else 8) * batch
    span = NoiseSpan(x, 1, 0, Counting.EVIDENCE, 0, copies)
    share = Share([(0, span)], 1, NOISE, step, batch, x[None][:0], device)
    draw = batches_for(NOISE, step, device)
    return nanoseconds(lambda: [None for _ in draw(share)], copies * x.numel(), device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--sizes", nargs="+", default=["3x32x32", "3x224x224"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    p, cells = chi_square(asked.draws)
    print(f"chi-square of {asked.draws:,} draws in {cells} cells: p = {p:.3f}")
    devices = [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]
    for device in devices:
        for size in asked.sizes:
            shape = tuple(int(side) for side in size.split("x"))
            for name, step in (("float32 noise", 0.0), ("steps of 1/255", BYTE), ("steps of 2^-14", 2.0**-14)):
                print(f"{device.type:5} {size:10} {name:15} {cost(shape, step, device):8.4f} ns a number")


if __name__ == "__main__":
    main()
