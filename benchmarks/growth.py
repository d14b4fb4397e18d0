"""How the cost of certificates grows: with the noisy copies, the classes and the inputs; and what they take on disk.

    python benchmarks/growth.py [--device cuda] [--save]

A small network, so that what is not the network shows. Each group is one run; compare within it.
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import holdfast as hf
from holdfast.certificates.settings import Settings
from holdfast.zoo.small_cnn import SmallCNN

SIGMA = 0.25


def smoothed(classes: int, device: str) -> hf.SmoothedClassifier:
    torch.manual_seed(0)
    return hf.SmoothedClassifier(SmallCNN(channels=1, size=28, classes=classes), SIGMA, device=device)


def images(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(0).random((count, 1, 28, 28)).astype(np.float32)


def took(classifier: hf.SmoothedClassifier, inputs: int, n: int) -> float:
    """Seconds for all inputs and all three bounds, after a short run that does not count."""
    classifier.certify_many(images(1), n=1_000, progress=False)
    begin = time.perf_counter()
    for cert in classifier.certify_many(images(inputs), n=n, progress=False):
        cert.score.lower([0.0, 0.25]), cert.margin.lower([0.0, 0.25]), cert.label_radius
    return time.perf_counter() - begin


def figures(device: str) -> Iterator[tuple[str, float]]:
    ten = smoothed(10, device)
    for n in (1_000, 10_000, 100_000, 1_000_000):
        seconds = took(ten, 1, n)
        yield f"seconds, 1 input, 10 classes, n = {n}", seconds
    for classes in (2, 10, 100, 1_000):
        yield f"seconds, 1 input, {classes} classes, n = 100000", took(smoothed(classes, device), 1, 100_000)
    for inputs in (1, 10, 100):
        yield f"seconds an input, {inputs} inputs, 10 classes, n = 10000", took(ten, inputs, 10_000) / inputs
    for n in (1_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            hf.certify_run(ten, images(10), np.zeros(10), out=run, settings=Settings(n=n), progress=False)
            size = sum(part.stat().st_size for part in run.rglob("*.parquet"))
        yield f"bytes on disk an input, n = {n}", size / 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--save", action="store_true", help="keep the numbers beside this script")
    asked = parser.parse_args()
    device = asked.device if asked.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, object] = {
        "machine": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    for name, value in figures(device):
        print(f"{name}: {value:.4g}", flush=True)
        found[name] = value
    if asked.save:
        path = Path(__file__).with_name(f"growth_{device}.json")
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
