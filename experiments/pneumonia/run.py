"""Train, certify, choose thresholds, attack: the whole example in one command.

    OMP_NUM_THREADS=1 python -m experiments.pneumonia.run --data pneumoniamnist.npz --work runs/pneumonia

Every step is a ``holdfast`` command, which is printed; what is in ``--work`` already is not made again, and is refused
if it was made from other data, weights or options.
"""

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from experiments.pneumonia.attack import attacked
from experiments.pneumonia.study import Labelled, as_published, average_score, results, shuffled, table
from holdfast.cli.app import run as holdfast
from holdfast.report.figures import save_figure
from holdfast.runs.run import Run
from holdfast.triage.drift import drift_test
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.datasets.npz import load_npz

SIGMA, ATTACK_RADIUS, SPLITS = 0.25, 0.1, ("val", "test")
ALPHA = 0.01  # of the drift check
STEP = 2.0**-14  # finer than bytes: attacked images are floating point
HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes ``table.md``, ``results.json``, ``scores.json`` and ``triage.png``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="pneumoniamnist.npz of MedMNIST")
    parser.add_argument("--work", type=Path, required=True, help="folder for weights and runs")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the results; default: this one")
    parser.add_argument("--n", type=int, default=5_000, help="noisy copies per image")
    parser.add_argument("--epochs", type=int, default=20, help="of training")
    asked = parser.parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    weights, moved = asked.work / "net.safetensors", asked.work / "attacked.npz"
    if not weights.exists():
        _do("train", data=asked.data, sigma=SIGMA, epochs=asked.epochs, shift=2, out=weights)
    checkpoint = load_checkpoint(weights)
    network = hf.SmoothedClassifier(checkpoint.net, SIGMA).fingerprint
    _reuse(weights, checkpoint.notes.get("epochs") == str(asked.epochs))
    if not moved.exists():
        _attack(asked.data, weights, moved, str(network))
    with np.load(moved) as arrays:
        _reuse(moved, str(arrays["network"]) == network)
    runs: dict[str, Labelled] = {}
    for kind, data in (("clean", asked.data), ("attacked", moved)):
        for number, split in enumerate(SPLITS):
            out = asked.work / f"{kind}-{split}"
            if not (out / "exports").exists():
                seed = 1 + number + (len(SPLITS) if kind == "attacked" else 0)
                _do(
                    "certify",
                    model=weights,
                    data=data,
                    split=split,
                    sigma=SIGMA,
                    step=STEP,
                    n=asked.n,
                    seed=seed,
                    out=out,
                )
            run = Run.open(out)
            of = (run.config["n"], run.fingerprint, run.config["fingerprints"]["images"])
            _reuse(out, of == (asked.n, network, load_npz(data, split).digest()))
            runs[f"{kind}-{split}"] = list(run.labelled())
    parts = [
        as_published(runs["clean-val"], runs["clean-test"], runs["attacked-test"]),
        shuffled([*runs["clean-val"], *runs["clean-test"]], [*runs["attacked-val"], *runs["attacked-test"]]),
    ]
    studies = [results(part, ATTACK_RADIUS) for part in parts]
    (asked.out / "results.json").write_text(json.dumps(studies, indent=1) + "\n", encoding="utf-8")
    scores = {name: sorted(map(average_score, runs[f"clean-{name}"])) for name in SPLITS}
    (asked.out / "scores.json").write_text(json.dumps(scores) + "\n", encoding="utf-8")
    (asked.out / "table.md").write_text(table(studies), encoding="utf-8")
    drawn = hf.choose_threshold(parts[1].calibration, radius=ATTACK_RADIUS, epsilon=parts[1].epsilon)
    save_figure(drawn.figure(), asked.out / "triage.png")
    print(table(studies))
    print(drift_test(scores["val"], scores["test"], alpha=ALPHA))


def _reuse(path: Path, same: bool) -> None:
    if not same:
        raise SystemExit(f"{path} was made from other data, weights or options; choose another --work, or move it away")


def _attack(data: Path, weights: Path, out: Path, network: str) -> None:
    arrays: dict[str, Any] = {"network": np.array(network)}
    for split in SPLITS:
        clean = load_npz(data, split)
        images = clean.batch(np.arange(len(clean)))
        arrays[f"{split}_images"] = attacked(weights, images, clean.labels, sigma=SIGMA, radius=ATTACK_RADIUS)
        arrays[f"{split}_labels"] = clean.labels
        furthest = np.sqrt(((arrays[f"{split}_images"] - images) ** 2).sum(axis=(1, 2, 3))).max()
        assert furthest <= ATTACK_RADIUS, furthest
    np.savez_compressed(out, **arrays)


def _do(command: str, **options: object) -> None:
    words = [command, *(word for name, value in options.items() for word in (f"--{name}", str(value)))]
    print(shlex.join(["holdfast", *words]), flush=True)
    if (code := holdfast(words)) != 0:
        raise SystemExit(code)


if __name__ == "__main__":
    main()
