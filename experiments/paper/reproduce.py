"""Everything from the beginning: train, certify, compact, draw. Takes a GPU; the commands are listed in one place.

python -m experiments.paper.reproduce --data cifar10.npz [--work runs/paper] [--dry-run]

Everything goes into the work folder, so that it can be compared with what is committed, which is left alone.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import RunError
from holdfast.runs.run import Run

SIGMAS = ("0.25", "0.50")
TRAINING = (
    "--epochs 45 --batch 256 --optimizer sgd --learning-rate 0.1 --weight-decay 0.0001 --shift 4 --sharpness 0.5 "
    "--precision bfloat16 --compile"
)
PLAIN = TRAINING.replace("--sharpness 0.5", "--objective plain")
"""How the paper's networks were trained, as far as the objective goes: noise on the images, and nothing else."""
NETWORKS = {
    f"{kind}sigma{sigma}": (sigma, training)
    for kind, training in (("plain-", PLAIN), ("", TRAINING))
    for sigma in SIGMAS
}
CERTIFYING = "--skip 20 --n 100000 --n0 100 --alpha 0.001 --claims label,score,margin --precision bfloat16"


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
            try:
                return Run.open(self.makes).config.get("status") == "complete"
            except RunError:
                return False
        return True


def steps(data: str, work: Path) -> list[Step]:
    """The exact commands; change options here. Paths are relative, so that what is committed names no machine."""
    found: list[Step] = []
    data = shlex.quote(data)
    for name, (sigma, training) in NETWORKS.items():
        weights, run, kept = (
            work / f"resnet110-{name}.safetensors",
            work / f"cifar10-{name}",
            work / "compact" / f"cifar10-{name}",
        )
        found += [
            module_step(
                f"holdfast train --arch resnet110 --data {data} --sigma {sigma} --out {_quoted(weights)} {training}",
                weights,
            ),
            module_step(
                f"holdfast certify --model {_quoted(weights)} --data {data} --sigma {sigma} --out {_quoted(run)} {CERTIFYING}",
                run,
            ),
            module_step(f"holdfast compact {_quoted(run)} --bins 2048 --out {_quoted(kept)}", kept),
            module_step(
                f"experiments.paper.softmax --model {_quoted(weights)} --data {data} --run {_quoted(kept)}",
                kept / "softmax.npz",
            ),
        ]
    runs = " ".join(_quoted(work / "compact" / f"cifar10-{name}") for name in NETWORKS)
    results = _quoted(work / "results")
    return [
        *found,
        module_step(f"experiments.paper.figures --runs {runs} --out {results} --data {data}", None),
        module_step(f"experiments.paper.human --runs {runs} --out {results}", None),
    ]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def module_step(command: str, makes: Path | None) -> Step:
    """A module of Python's and its arguments."""
    return Step((sys.executable, "-m", *shlex.split(command)), makes)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Train, certify and draw the paper's experiments on CIFAR-10.")
    parser.add_argument("--data", required=True, help="CIFAR-10, as 'holdfast train --data' takes it; a relative path")
    parser.add_argument("--work", type=Path, default=Path("runs/paper"), help="folder for weights and whole runs")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    asked = parser.parse_args(arguments)
    if not asked.dry_run:
        asked.work.mkdir(parents=True, exist_ok=True)
    return follow(steps(asked.data, asked.work), dry_run=asked.dry_run)


def follow(commands: Sequence[Step], *, dry_run: bool) -> int:
    """Run what is not done yet, until one fails; the exit code of that one, or 0."""
    for step in commands:
        print(("done: " if step.done else "") + shlex.join(step.argv), flush=True)
        if dry_run or step.done:
            continue
        code = subprocess.run(step.argv, check=False).returncode
        if code != 0:
            print(f"reproduce: stopped with exit code {code}; run it again to go on from here", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
