"""Experiments from the beginning: train, certify, compact, draw. It goes on where it stopped.

python -m experiments.reproduce --data cifar10.npz [--what cifar10] [--work runs] [--at-once 3] [--dry-run]

``cifar10`` is the study of objectives and the paper's experiments, and takes a GPU; ``fashion-mnist`` is a small study of
objectives for two CPU cores. Everything goes into the work folder, so that it can be compared with what is committed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.paper import reproduce as paper
from experiments.steps import Step, follow
from experiments.training import reproduce as training


def commands(what: str, data: str, work: Path) -> tuple[list[list[Step]], list[Step]]:
    """For each network its steps; and those that follow when all networks are done."""
    studied, last = training.chains(what, data, work), [training.table_step(what, data, work)]
    if what != "cifar10":
        return [*studied.values()], last
    for sigma, objective in training.BEST.items():
        weights = training.weights_of(what, objective, sigma, work)
        studied[weights.stem] += paper.run_steps(f"cifar10-sigma{sigma}", weights, sigma, data, work)
    plain = [paper.plain_steps(sigma, data, work) for sigma in paper.SIGMAS]
    return [*studied.values(), *plain], [*last, *paper.drawing_steps(data, work)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Train, certify, compact and draw, from the beginning.")
    parser.add_argument("--data", required=True, help="as 'holdfast train --data' takes it; a relative path")
    parser.add_argument("--what", choices=tuple(training.STUDIES), default="cifar10", help="which experiments")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="folder for weights, runs and results")
    parser.add_argument("--at-once", type=int, default=1, help="networks at a time; three keep a GPU busy")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    asked = parser.parse_args(arguments)
    chains, last = commands(asked.what, asked.data, asked.work)
    return follow(chains, last, at_once=asked.at_once, dry_run=asked.dry_run)


if __name__ == "__main__":
    sys.exit(main())
