"""Decisions that stop when they know, on real images: noisy copies and seconds for each, and agreement with full runs.

    python benchmarks/early_stopping.py --weights W --data CIFAR10 --sigma 0.25 --precision bfloat16 --out decisions.json
    python benchmarks/early_stopping.py --compare runs/a --decisions decisions.json

The first half needs the network (and wants a GPU); the second compares with a stored full run of the same inputs.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import holdfast as hf
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.folder import RunFolder
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.datasets.labelled import Images
from holdfast.zoo.datasets.open import open_dataset

ALPHA, N = 1e-3, 100_000
QUESTIONS = ((0.5, 0.25), (0.5, 0.5), (0.7, 0.25), (0.9, 0.25))


def ask(asked: argparse.Namespace) -> dict[str, Any]:
    """All questions about all inputs."""
    data = open_dataset(str(asked.data), split="test").every(20, asked.max)
    smoothed = hf.SmoothedClassifier(
        load_checkpoint(asked.weights).net, asked.sigma, device=asked.device, precision=asked.precision
    )
    xs, keys = Images(data), data.indices.tolist()
    smoothed.decide(xs[0], at_least=0.5, radius=0.25, n_max=N, alpha=ALPHA)  # compiles
    found: dict[str, Any] = {"sigma": asked.sigma, "alpha": ALPHA, "n_max": N, "indices": keys, "questions": []}
    if torch.cuda.is_available():
        found["machine"] = torch.cuda.get_device_name()
    for at_least, radius in QUESTIONS:
        begin = time.perf_counter()
        decisions = smoothed.decide_many(
            xs, at_least=at_least, radius=radius, indices=keys, n_max=N, alpha=ALPHA, progress=False
        )
        took = (time.perf_counter() - begin) / len(keys)
        entry = {
            "at_least": at_least,
            "radius": radius,
            "seconds_per_decision": took,
            "samples_per_decision": float(np.mean([each.samples for each in decisions])),
            "certified": [each.certified for each in decisions],
            "predicted": [each.predicted for each in decisions],
        }
        print({key: value for key, value in entry.items() if not isinstance(value, list)}, flush=True)
        found["questions"].append(entry)
    return found


def compare(decisions: dict[str, Any], run: CertifiedRun) -> None:
    """How often a decision is what the stored run's certificate of the score alone says, at the same alpha."""
    entries = {entry.index: entry.certificate.recompute(claims=("score",), alpha=ALPHA) for entry in run}
    agreed = total = 0
    for question in decisions["questions"]:
        full = [
            bool(entries[index].score.lower(question["radius"]) >= question["at_least"])
            for index in decisions["indices"]
        ]
        same = np.equal(full, question["certified"])
        agreed, total = agreed + int(same.sum()), total + same.size
        print(f"score >= {question['at_least']} within {question['radius']}: {same.mean():.4f} of decisions agree")
    print(f"all: {agreed} of {total} ({agreed / total:.4f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--max", type=int)
    parser.add_argument("--out", type=Path, default=Path("decisions.json"))
    parser.add_argument("--compare", type=Path, help="a stored run of the same inputs")
    parser.add_argument("--decisions", type=Path)
    asked = parser.parse_args()
    if asked.compare:
        compare(json.loads(asked.decisions.read_text(encoding="utf-8")), CertifiedRun(RunFolder.open(asked.compare)))
    else:
        asked.out.write_text(json.dumps(ask(asked)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
