"""The study of objectives from the beginning, as commands in one place; ``experiments.reproduce`` runs them."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.steps import Step, certifying_steps


@dataclass(frozen=True)
class Study:
    """What all objectives have in common, and for each sigma the options of each objective.

    Options that are not given have the defaults of docs/commands.md.
    """

    objectives: Mapping[str, Mapping[str, str]]
    training: str
    certifying: str
    bins: int


def _on_cifar10(weight: int) -> dict[str, str]:
    """With the weight of consistency that its authors chose for a sigma, and half of it."""
    return {
        "plain": "--objective plain",
        "consistency": f"--objective consistency --consistency {weight}",
        "consistency-half": f"--objective consistency --consistency {weight // 2}",
        "certified": "--objective certified",
        "smoothadv": "--objective smoothadv --steps 1",
    }


def _on_fashion_mnist(sigma: float) -> dict[str, str]:
    objectives = {
        "plain": "--objective plain",
        "consistency": "--objective consistency",
        "smoothadv": "--objective smoothadv",
        "certified": "--objective certified --score brier",
        "certified-normal": f"--objective certified --law normal --radius {2 * sigma:g}",
    }
    mended = {name: f"{objectives[name]} --temperature auto" for name in ("plain", "consistency", "certified-normal")}
    return objectives | {f"{name}-temperature": options for name, options in mended.items()}


STUDIES = {
    "cifar10": Study(
        {"0.25": _on_cifar10(20), "0.50": _on_cifar10(10)},
        "--arch resnet20x4 --epochs 36 --batch 256 --optimizer sgd --learning-rate 0.1 --weight-decay 0.0005 --shift 4 "
        "--precision bfloat16 --compile --temperature auto",
        "--skip 20 --n 10000 --n0 100 --alpha 0.001 --claims label,score,margin --precision bfloat16",
        2048,
    ),
    "fashion-mnist": Study(
        {"0.25": _on_fashion_mnist(0.25), "0.50": _on_fashion_mnist(0.5)},
        "--arch small-cnn --epochs 6",
        "--skip 25 --n 10000 --n0 100 --alpha 0.001 --claims label,score,margin",
        512,
    ),
}
ORDER = tuple(dict.fromkeys(name for study in STUDIES.values() for each in study.objectives.values() for name in each))
"""Of the rows of a table."""
BEST = {"0.25": "consistency-half", "0.50": "consistency"}
"""Of CIFAR-10's, what Holdfast ships for each sigma; README.md says why."""


def weights_of(study: str, objective: str, sigma: str, work: Path) -> Path:
    """Where a trained network is kept."""
    return work / "training" / study / f"{objective}-sigma{sigma}.safetensors"


def chains(study: str, data: str, work: Path) -> dict[str, list[Step]]:
    """For each network by its title: train, certify, compact. Paths are relative, so that what is committed names no machine."""
    chosen, where = STUDIES[study], shlex.quote(data)
    found: dict[str, list[Step]] = {}
    for sigma, objectives in chosen.objectives.items():
        for name, options in objectives.items():
            weights = weights_of(study, name, sigma, work)
            trained = f"holdfast train --data {where} --sigma {sigma} --out {shlex.quote(str(weights))}"
            found[weights.stem] = [
                Step.module(f"{trained} {chosen.training} {options}", weights),
                *certifying_steps(weights, data, sigma, chosen.certifying, weights.with_suffix(""), chosen.bins),
            ]
    return found


def table_step(study: str, data: str, work: Path) -> Step:
    """The table of all of them."""
    folder = work / "training" / study
    runs = " ".join(shlex.quote(str(folder / "compact" / title)) for title in chains(study, data, work))
    return Step.module(f"experiments.training.table --runs {runs} --out {shlex.quote(str(folder / 'results'))}", None)
