"""What the thresholds promise, and what happens: one line for each way to calibrate, and radius."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import holdfast as hf
from holdfast.scores.rounding import ceil_decimals, floor_decimals

RADII = (0.0, 0.05, 0.1, 0.15, 0.25)
Labelled = Sequence[tuple[hf.Certificate, int]]


@dataclass(frozen=True)
class Deployment:
    """Calibration inputs, and inputs of deployment as they are and as the adversary left them."""

    name: str
    epsilon: float
    calibration: Labelled
    clean: Labelled
    attacked: Labelled


@dataclass(frozen=True)
class Happened:
    """What the rule did."""

    inputs: int
    accepted: int
    wrong: int


def as_published(val: Labelled, test: Labelled, attacked_test: Labelled) -> Deployment:
    """Calibrate on the validation images, deploy on the test images."""
    return Deployment("val, then test", 0.05, val, test, attacked_test)


def shuffled(clean: Labelled, attacked: Labelled) -> Deployment:
    """Validation and test images in one urn: a random half calibrates, the other is deployed on."""
    order = np.random.default_rng(0).permutation(len(clean))
    half = len(clean) // 2
    first, rest = order[:half], order[half:]
    return Deployment(
        "both shuffled", 0.1, [clean[k] for k in first], [clean[k] for k in rest], [attacked[k] for k in rest]
    )


def results(deployment: Deployment, attack_radius: float) -> dict[str, Any]:
    """The table's lines."""
    lines = []
    for radius in RADII:
        found = hf.choose_threshold(deployment.calibration, radius=radius, epsilon=deployment.epsilon)
        row = found.chosen
        lines.append(
            {
                "radius": radius,
                "threshold": found.threshold,
                "chosen": None if row is None else asdict(row),
                "reliability": asdict(found.reliability),
                "guarantee": str(found),
                "clean": asdict(_happened(found, deployment.clean)),
                "attacked": asdict(_happened(found, deployment.attacked)) if radius == attack_radius else None,
            }
        )
    return {
        "calibration": deployment.name,
        "epsilon": deployment.epsilon,
        "inputs": len(deployment.calibration),
        "lines": lines,
    }


def _happened(found: hf.Triage, inputs: Labelled) -> Happened:
    accepted = [(verdict.predicted, label) for c, label in inputs if (verdict := found.decide(c)).accepted]
    return Happened(len(inputs), len(accepted), sum(predicted != label for predicted, label in accepted))


def average_score(labelled: tuple[hf.Certificate, int]) -> float:
    """What drift is looked for in; rounded, which makes ties and no false alarms."""
    return round(labelled[0].evidence["score"].survival_lower().mean, 5)


def table(studies: Sequence[dict[str, Any]]) -> str:
    """Markdown; upper bounds rounded up, lower bounds down."""
    lines = [
        "| calibrated on | epsilon | radius | threshold | could be wrong / sure | covers at least | accepted / wrong, no attack "
        "| accepted / wrong, attacked | Brier at most | ECE at most |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for study in studies:
        for line in study["lines"]:
            row, scores = line["chosen"], line["reliability"]
            cells = [study["calibration"], f"{study['epsilon']:g}", f"{line['radius']:g}"]
            if row is None:
                cells += ["none", "", "", "all handed over", ""]
            else:
                cells += [
                    f"{row['threshold']:g}",
                    f"{row['could_be_wrong']} / {row['surely_right']} of {study['inputs']}",
                    floor_decimals(row["coverage"], 3),
                    f"{line['clean']['accepted']} / {line['clean']['wrong']} of {line['clean']['inputs']}",
                    "" if line["attacked"] is None else f"{line['attacked']['accepted']} / {line['attacked']['wrong']}",
                ]
            cells += [ceil_decimals(scores["brier_upper"], 3), ceil_decimals(scores["ece_upper"], 3)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
