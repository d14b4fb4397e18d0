"""How certified confidence, certified radius and plain softmax each agree with people's confidence.

python -m experiments.paper.human --runs RUN RUN --human cifar10h-probs.npy --out experiments/paper/results

People's confidence is CIFAR-10H (Peterson et al. 2019, CC BY-NC-SA 4.0): for each CIFAR-10 test image, the shares of about
fifty people who chose each class. It is read in place and not part of this repository.
"""

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from experiments.paper.agreement import RESAMPLES, SEED, Agreement, agreement, without_nan
from experiments.paper.evaluation import ALPHA, Evaluation, histogram, in_order
from experiments.paper.softmax import NAME, PlainSoftmax
from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE, in_symbols
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SOFTMAX = "plain softmax"
RADII = (0.25, 0.5)
LEAST_AGREEMENT = 0.5
DEFAULT_HUMAN = Path("../shared/data/cifar10h/cifar10h-probs.npy")


@dataclass(frozen=True)
class Reading:
    """One way to ask the question: over which inputs, and what people's confidence is."""

    key: str
    title: str
    says: str


RIGHT = Reading(
    "right_answers",
    "inputs it gets right",
    "inputs whose predicted class is the label; the share of people who chose that class",
)
ANSWER = Reading(
    "all_predicted",
    "all inputs, people's share\nfor the predicted class",
    "all inputs; the share of people who chose the predicted class, which also rewards knowing when one is wrong",
)
LABEL = Reading(
    "all_label",
    "all inputs, people's share\nfor the label",
    "all inputs; the share of people who chose the label, whatever the network predicts",
)
READINGS = (RIGHT, ANSWER, LABEL)


@dataclass(frozen=True)
class Study:
    """What came out for one run, by reading."""

    title: str
    inputs: int
    right: int
    resamples: int
    found: dict[str, Agreement]


def quantities(run: Evaluation) -> dict[str, Floats]:
    """What is compared, a number an input; all about the class that the smoothed classifier predicts, each alone at alpha.

    Plain softmax (where the run's folder has it) is the probability that the network gives that class without noise.
    """
    curves = hf.bound_many((histogram(entry, "score") for entry in run.entries), alpha=ALPHA)
    at = curves.lower([0.0, *RADII])
    found: dict[str, Floats] = {}
    if (run.run.path / NAME).is_file():
        stored = PlainSoftmax.read(run.run.path / NAME)
        found[SOFTMAX] = stored.of([a.index for a in run.answers], [a.predicted for a in run.answers])
    found["certified score at the input"] = at[:, 0]
    for k, radius in enumerate(RADII, start=1):
        found[f"certified score at R = {format_number(radius)}"] = at[:, k]
    found["certified radius of score >= 0.5"] = curves.radius(at_least=0.5)
    found["certified radius of the label"] = np.array([a.label_radius for a in run.answers])
    return found


def study(run: Evaluation, human: Floats, *, resamples: int = RESAMPLES) -> Study:
    """Rank correlations of every quantity with people's confidence, in each reading."""
    compared = quantities(run)
    reference = SOFTMAX if SOFTMAX in compared else None
    index, label, predicted = (
        np.array([getattr(a, name) for a in run.answers]) for name in ("index", "label", "predicted")
    )
    if int(index.max()) >= len(human) or int(max(label.max(), predicted.max())) >= human.shape[1]:
        raise hf.RunError(f"{run.run.path} is not about CIFAR-10's test images: people's shares are of those")
    agree = float((human[index].argmax(1) == label).mean())
    if agree < LEAST_AGREEMENT:
        raise hf.RunError(
            f"{run.run.path} is not about CIFAR-10's test images in their usual order: most people choose the label of only "
            f"{100 * agree:.0f}% of its inputs"
        )
    everyone = np.full(len(run), True)
    found = {}
    for reading, chosen, answer in (
        (RIGHT, run.right, predicted),
        (ANSWER, everyone, predicted),
        (LABEL, everyone, label),
    ):
        target = human[index, answer][chosen]
        if target.size > 2:
            kept = {name: values[chosen] for name, values in compared.items()}
            found[reading.key] = agreement(target, kept, reference=reference, resamples=resamples)
    return Study(run.title, len(run), int(run.right.sum()), resamples, found)


def read_human(path: Path) -> Floats:
    """CIFAR-10H's shares: (10,000, 10), rows in the order of the test set."""
    if not path.is_file():
        raise hf.DatasetError(f"no human label distributions at {path}; pass CIFAR-10H's cifar10h-probs.npy as --human")
    try:
        shares = np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (ValueError, EOFError, OSError) as error:
        raise hf.DatasetError(
            f"{path} is no array of numbers in a .npy file; pass CIFAR-10H's cifar10h-probs.npy as --human"
        ) from error
    if shares.ndim != 2 or not np.allclose(shares.sum(axis=1), 1.0, atol=1e-6) or shares.min() < 0:
        raise hf.DatasetError(f"{path} must hold one distribution over the classes a row, got shape {shares.shape}")
    return shares


def human_figure(studies: Sequence[Study]) -> "Figure":
    """A panel per reading, a row per quantity, a colour per run: rank correlation with its interval."""
    from holdfast.house_figure import HouseFigure

    readings = [reading for reading in READINGS if all(reading.key in each.found for each in studies)]
    names = list(dict.fromkeys(name for each in studies for found in each.found.values() for name in found.rho))
    figure = HouseFigure(figsize=(3.3 + 2.9 * len(readings), 1.7 + 0.48 * len(names)))
    panels = figure.subplots(1, len(readings), sharey=True, sharex=True, squeeze=False)[0]
    for axes, reading in zip(panels, readings, strict=True):
        for number, each in enumerate(studies):
            rho = each.found[reading.key].rho
            shown = [name for name in names if name in rho and not np.isnan(rho[name].estimate)]
            height = np.array([names.index(name) for name in shown]) + 0.22 * (number - (len(studies) - 1) / 2)
            middle, low, high = (
                np.array([getattr(rho[name], part) for name in shown]) for part in ("estimate", "low", "high")
            )
            axes.errorbar(
                middle,
                height,
                xerr=np.maximum(0.0, np.array([middle - low, high - middle])),
                fmt="o",
                markersize=4.5,
                color=PALETTE[number],
                label=in_symbols(each.title),
            )
        axes.axvline(0.0, color="0.4", linewidth=1.0)
        axes.set_title(reading.title, fontsize=10)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.supxlabel("Spearman's rank correlation with people's confidence (95% bootstrap interval)", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=min(2, len(studies)), fontsize=9, edgecolor="none")
    return figure


def in_words(each: Study, reading: Reading) -> list[str]:
    """What the numbers of one run say, and what they do not."""
    found = each.found[reading.key]
    known = {name: rho for name, rho in found.rho.items() if not np.isnan(rho.estimate)}
    if not known:
        return ["No rank correlation is defined: the numbers do not vary."]
    best = max(known, key=lambda name: known[name].estimate)
    said = [f"Highest rank correlation: {best}, {known[best]}."]
    unclear = [name for name, rho in known.items() if not rho.excludes_zero]
    said.append(
        f"The interval includes zero for {_listed(unclear, known)}." if unclear else "No interval includes zero."
    )
    if not found.less_reference:
        return [*said, f"Plain softmax was not stored with this run ({NAME}), so nothing is compared with it."]
    better = [name for name, less in found.less_reference.items() if less.low > 0]
    worse = [name for name, less in found.less_reference.items() if less.high < 0]
    level = [name for name in found.less_reference if name not in (*better, *worse)]
    for verdict, names in (
        ("above zero", better),
        ("below zero", worse),
        ("around zero, so that these inputs do not tell them apart,", level),
    ):
        if names:
            said.append(f"Less plain softmax, the interval is {verdict} for {_listed(names, found.less_reference)}.")
    return said


def as_markdown(studies: Sequence[Study]) -> str:
    """Tables and words, all from the numbers."""
    lines = [
        "# Agreement with human confidence",
        "",
        "Written by `python -m experiments.paper.human`. Spearman's rank correlation of each quantity with people's confidence",
        "(CIFAR-10H: Peterson, Battleday, Griffiths and Russakovsky 2019; CC BY-NC-SA 4.0), with 95% percentile intervals from",
        f"{studies[0].resamples:,} bootstrap resamples of the inputs (seed {SEED}), and differences to plain softmax on the same",
        "resamples. Every quantity is about the class that the smoothed classifier predicts: plain softmax is the network's own",
        "probability for it without noise, the others are Holdfast's default bounds, each alone at",
        f"alpha = {format_number(ALPHA)}. On many images all people agree: ties share their average rank. Intervals are for one comparison",
        "each; nothing is corrected for making several.",
    ]
    for each in studies:
        lines += ["", f"## {each.title} ({each.inputs} inputs, {each.right} predicted rightly)"]
        for reading in READINGS:
            if reading.key not in each.found:
                continue
            found = each.found[reading.key]
            lines += ["", f"**Over {reading.says}** ({found.inputs} inputs).", ""]
            lines += ["| quantity | rank correlation | less plain softmax |", "|---|---|---|"]
            lines += [f"| {name} | {rho} | {found.less_reference.get(name, '')} |" for name, rho in found.rho.items()]
            lines += ["", " ".join(in_words(each, reading))]
    return "\n".join([*lines, ""])


def as_json(studies: Sequence[Study]) -> dict[str, Any]:
    """The numbers, unrounded."""
    return {
        "seed": SEED,
        "readings": {reading.key: reading.says for reading in READINGS},
        "runs": [without_nan(asdict(each)) for each in studies],
    }


def write_study(studies: Sequence[Study], out: Path) -> list[Path]:
    """One figure, one page of tables, one file of numbers."""
    out.mkdir(parents=True, exist_ok=True)
    page, numbers = out / "human.md", out / "human.json"
    page.write_text(as_markdown(studies), encoding="utf-8")
    numbers.write_text(json.dumps(as_json(studies), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return [*write_figure(human_figure(studies), out / "human.png"), page, numbers]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare certified confidence with human confidence (CIFAR-10H).")
    parser.add_argument(
        "--runs", nargs="+", type=Path, required=True, help=f"run folders, with {NAME} for plain softmax"
    )
    parser.add_argument("--human", type=Path, default=DEFAULT_HUMAN, help="CIFAR-10H's cifar10h-probs.npy")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder for the files")
    asked = parser.parse_args(arguments)
    try:
        human = read_human(asked.human)
        runs = in_order(Evaluation.open(path) for path in asked.runs)
        written = write_study([study(run, human) for run in runs], asked.out)
    except hf.HoldfastError as error:
        print(f"human: {error}", file=sys.stderr)
        return error.exit_code
    for path in written:
        print(path)
    return 0


def _listed(names: Sequence[str], of: Collection[str]) -> str:
    return f"all {len(of)} of them" if len(names) == len(of) > 1 else ", ".join(names)


if __name__ == "__main__":
    sys.exit(main())
