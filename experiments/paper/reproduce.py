"""Everything from the beginning: train, certify, compact, draw. Takes a GPU; the commands are listed in one place.

python -m experiments.paper.reproduce --data cifar10.npz [--work runs/paper] [--dry-run]
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SIGMAS = ("0.25", "0.50")
HERE = Path("experiments/paper")
KEPT = HERE / "runs"
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Step:
    """A command and what it leaves behind; it is left out if that is there already."""

    argv: tuple[str, ...]
    makes: Path | None

    @property
    def done(self) -> bool:
        """Whether the file is there, or the run complete."""
        if self.makes is None or not self.makes.exists():
            return False
        if self.makes.is_dir():
            return bool(json.loads((self.makes / "run.json").read_text(encoding="utf-8")).get("status") == "complete")
        return True


def steps(data: str, work: Path) -> list[Step]:
    """The exact commands; change options here. Paths are relative, so that what is committed names no machine."""
    holdfast = str(Path(sys.executable).with_name("holdfast"))
    found: list[Step] = []
    for sigma in SIGMAS:
        weights, run, kept = (
            work / f"resnet110-sigma{sigma}.safetensors",
            work / f"cifar10-sigma{sigma}",
            KEPT / f"cifar10-sigma{sigma}",
        )
        train = [holdfast, "train", "--arch", "resnet110", "--data", data, "--sigma", sigma, "--out", str(weights)]
        certify = [holdfast, "certify", "--model", str(weights), "--data", data, "--sigma", sigma, "--out", str(run)]
        certify += [
            "--skip",
            "20",
            "--n",
            "100000",
            "--n0",
            "100",
            "--alpha",
            "0.001",
            "--claims",
            "label,score,margin",
        ]
        compact = [holdfast, "compact", str(run), "--bins", "2048", "--out", str(kept)]
        softmax = [
            sys.executable,
            "-m",
            "experiments.paper.softmax",
            "--model",
            str(weights),
            "--data",
            data,
            "--run",
            str(kept),
        ]
        found += [
            Step(tuple(train), weights),
            Step(tuple(certify), run),
            Step(tuple(compact), kept),
            Step(tuple(softmax), kept / "softmax.npz"),
        ]
    runs = ["--runs", *(str(KEPT / f"cifar10-sigma{sigma}") for sigma in SIGMAS), "--out", str(RESULTS)]
    figures = [sys.executable, "-m", "experiments.paper.figures", *runs, "--data", data]
    return [*found, Step(tuple(figures), None), Step((sys.executable, "-m", "experiments.paper.human", *runs), None)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Train, certify and draw the paper's experiments on CIFAR-10.")
    parser.add_argument("--data", required=True, help="CIFAR-10, as 'holdfast train --data' takes it; a relative path")
    parser.add_argument("--work", type=Path, default=Path("runs/paper"), help="folder for weights and whole runs")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    asked = parser.parse_args(arguments)
    if not asked.dry_run:
        asked.work.mkdir(parents=True, exist_ok=True)
    for step in steps(asked.data, asked.work):
        print(("done: " if step.done else "") + shlex.join(step.argv), flush=True)
        if asked.dry_run or step.done:
            continue
        code = subprocess.run(step.argv, check=False).returncode
        if code != 0:
            print(f"reproduce: stopped with exit code {code}; run it again to go on from here", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
