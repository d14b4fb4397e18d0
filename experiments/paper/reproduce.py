"""The paper's experiments on CIFAR-10 from the beginning, as commands in one place; ``experiments.reproduce`` runs them."""

import shlex
from pathlib import Path

from experiments.steps import Step, certifying_steps

SIGMAS = ("0.25", "0.50")
PLAIN = (
    "--arch resnet110 --epochs 45 --batch 256 --optimizer sgd --learning-rate 0.1 --weight-decay 0.0001 --shift 4 "
    "--objective plain --precision bfloat16 --compile"
)
"""The paper's networks: noise on the images, and nothing else."""
CERTIFYING = "--skip 20 --n 100000 --n0 100 --alpha 0.001 --claims label,score,margin --precision bfloat16"


NAMES = tuple(f"cifar10-{kind}sigma{sigma}" for sigma in SIGMAS for kind in ("plain-", ""))
"""Of the runs: the paper's network for each sigma, and the one that Holdfast ships."""


def plain_steps(sigma: str, data: str, work: Path) -> list[Step]:
    """The paper's network, trained and certified. Paths are relative, so that what is committed names no machine."""
    weights = work / "paper" / f"resnet110-plain-sigma{sigma}.safetensors"
    trained = f"holdfast train --data {shlex.quote(data)} --sigma {sigma} --out {shlex.quote(str(weights))} {PLAIN}"
    return [Step.module(trained, weights), *run_steps(f"cifar10-plain-sigma{sigma}", weights, sigma, data, work)]


def run_steps(name: str, weights: Path, sigma: str, data: str, work: Path) -> list[Step]:
    """A trained network, certified."""
    return certifying_steps(weights, data, sigma, CERTIFYING, work / "paper" / name, 2048)


def drawing_steps(data: str, work: Path) -> list[Step]:
    """The figures and tables of all runs."""
    runs = " ".join(shlex.quote(str(work / "paper" / "compact" / name)) for name in NAMES)
    results = shlex.quote(str(work / "paper" / "results"))
    return [
        Step.module(f"experiments.paper.figures --runs {runs} --out {results} --data {shlex.quote(data)}", None),
        Step.module(f"experiments.paper.human --runs {runs} --out {results}", None),
    ]
