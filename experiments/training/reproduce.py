"""Train with every objective, certify, compact, and write the table. The commands are listed in one place.

python -m experiments.training.reproduce --study cifar10 --data cifar10.npz [--work runs/training] [--dry-run]

Everything goes into the work folder. It goes on where it stopped.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.paper.reproduce import Step, follow, module_step

OBJECTIVES = {
    "plain": "--objective plain",
    "consistency": "--objective consistency --consistency {weight}",
    "smoothadv": "--objective smoothadv --steps {steps}",
    "certified": "--objective certified --score {score} --radius {radius:g}",
    "certified-normal": "--objective certified --law normal --radius {normal_radius:g}",
}
AT_A_TEMPERATURE = {
    f"{name}-temperature": f"{OBJECTIVES[name]} --temperature auto"
    for name in ("plain", "consistency", "certified-normal")
}
"""In the order of the table; options that are not given have the defaults of docs/commands.md."""


@dataclass(frozen=True)
class Study:
    """What all objectives have in common.

    Attributes:
        weights: of consistency, by sigma.
        radii: of certified, by sigma; and its proper score. The normal law has two sigma.
        steps: of smoothadv's attack.
    """

    objectives: Mapping[str, str]
    weights: Mapping[str, int]
    radii: Mapping[str, float]
    score: str
    steps: int
    training: str
    certifying: str
    bins: int

    def options(self, sigma: str) -> dict[str, str]:
        """Of each objective."""
        known = {
            "weight": self.weights[sigma],
            "steps": self.steps,
            "score": self.score,
            "radius": self.radii[sigma],
            "normal_radius": 2 * float(sigma),
        }
        return {name: options.format(**known) for name, options in self.objectives.items()}


STUDIES = {
    "cifar10": Study(
        OBJECTIVES,
        {"0.25": 20, "0.50": 10},  # as its authors chose them
        {"0.25": 0.5, "0.50": 1.0},
        "log",
        1,
        "--arch resnet110 --epochs 45 --batch 256 --optimizer sgd --learning-rate 0.1 --weight-decay 0.0001 --shift 4 "
        "--precision bfloat16 --compile --temperature auto",
        "--skip 20 --n 10000 --n0 100 --alpha 0.001 --claims label,score,margin --precision bfloat16",
        2048,
    ),
    "fashion-mnist": Study(
        OBJECTIVES | AT_A_TEMPERATURE,
        {"0.25": 20, "0.50": 20},
        {"0.25": 0.5, "0.50": 0.5},
        "brier",
        2,
        "--arch small-cnn --epochs 6",
        "--skip 25 --n 10000 --n0 100 --alpha 0.001 --claims label,score,margin",
        512,
    ),
}


def steps(study: str, data: str, work: Path) -> list[Step]:
    """The exact commands. Paths are relative, so that what is committed names no machine."""
    chosen, where = STUDIES[study], shlex.quote(data)
    found: list[Step] = []
    kept: list[str] = []
    for sigma in chosen.weights:
        for name, options in chosen.options(sigma).items():
            title = f"{name}-sigma{sigma}"
            weights, run, small = work / f"{title}.safetensors", work / title, work / "compact" / title
            net, whole, part = (shlex.quote(str(path)) for path in (weights, run, small))
            kept.append(part)
            found += [
                module_step(
                    f"holdfast train --data {where} --sigma {sigma} --out {net} {chosen.training} {options}", weights
                ),
                module_step(
                    f"holdfast certify --model {net} --data {where} --sigma {sigma} --out {whole} {chosen.certifying}",
                    run,
                ),
                module_step(f"holdfast compact {whole} --bins {chosen.bins} --out {part}", small),
                module_step(
                    f"experiments.paper.softmax --model {net} --data {where} --run {part}", small / "softmax.npz"
                ),
            ]
    results = shlex.quote(str(work / "results"))
    return [*found, module_step(f"experiments.training.table --runs {' '.join(kept)} --out {results}", None)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Train with every objective, certify, and write the table.")
    parser.add_argument("--study", choices=tuple(STUDIES), default="cifar10", help="architecture, epochs and copies")
    parser.add_argument(
        "--data", required=True, help="the dataset, as 'holdfast train --data' takes it; a relative path"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/training"), help="folder for weights, runs and results")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    asked = parser.parse_args(arguments)
    if not asked.dry_run:
        asked.work.mkdir(parents=True, exist_ok=True)
    return follow(steps(asked.study, asked.data, asked.work), dry_run=asked.dry_run)


if __name__ == "__main__":
    sys.exit(main())
