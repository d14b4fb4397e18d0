"""Figures and tables of stored runs on ImageNet: certified accuracy by radius for scores, margins and labels. Needs no GPU.

    python -m experiments.imagenet.figures runs/imagenet/sigma0.12 runs/imagenet/sigma0.25 --out results

Writes ``certified_accuracy_{score,margin,label}`` as PNG, PDF and SVG, ``table.md`` and ``table.json``. With ``--data``, also
the paper's figure 3 and the row of its figure 4 that are about ImageNet: they need the images, and ``softmax.npz`` in the
runs' folders.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.accuracy import draw_published, published_handles
from experiments.paper.evaluation import NAIVE, OURS, PAPER, Evaluation, in_order
from experiments.paper.pictures import IMAGENET, write_pictures
from experiments.paper.published import IMAGENET_MARGIN
from experiments.paper.scatter import write_scatter
from experiments.paper.softmax import PlainSoftmax
from experiments.paper.written import write_figure
from holdfast.cli.options import numbers
from holdfast.errors import HoldfastError
from holdfast.plotting import PALETTE
from holdfast.report.accuracy import AccuracyRow, Question, accuracy_rows, check_runs
from holdfast.report.figures import accuracy_figure
from holdfast.report.text import claim_title, headline, percent
from holdfast.report.thumbnails import check_same_inputs
from holdfast.runs.method_names import method_title
from holdfast.runs.run import Run
from holdfast.scores.rounding import format_number
from holdfast.zoo.datasets.open import open_dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RADII = "0,0.05,0.1,0.15,0.2,0.25,0.375,0.5"
_SCORES = "0.1,0.3,0.5"
_MARGINS = "0,0.1,0.3"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything anew."""
    asked = _parser().parse_args(arguments)
    try:
        _draw(asked)
    except HoldfastError as error:
        print(f"figures: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _draw(asked: argparse.Namespace) -> None:
    runs = [Run.open(path) for path in asked.runs]
    check_runs(runs)
    evaluations = in_order(Evaluation.open(path) for path in asked.runs) if asked.data is not None else []
    for each in evaluations:
        images = open_dataset(asked.data, split="val")
        check_same_inputs(each.run, images)
        PlainSoftmax.beside(each.run.path)
    radii = numbers(asked.radii, "--radii")
    questions = {
        "score": Question(radii, numbers(asked.score, "--score")),
        "margin": Question(radii, numbers(asked.margin, "--margin")),
        "label": Question(radii),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    for measure, question in questions.items():
        having = [run for run in runs if measure in run.measures]
        if having:
            figure = accuracy_figure(having, measure, question)
            if measure == "margin":
                add_published(figure, having, question)
            print(*write_figure(figure, asked.out / f"certified_accuracy_{measure}.png"), sep="\n")
    tables = {run: list(rows(run, questions)) for run in runs}
    document = [{"run": headline(run), "rows": [asdict(row) for row in table]} for run, table in tables.items()]
    for name, text in {"table.md": "\n".join(markdown(tables)), "table.json": json.dumps(document, indent=1)}.items():
        (asked.out / name).write_text(text + "\n", encoding="utf-8")
        print(asked.out / name)
    if evaluations:
        print(*write_scatter(evaluations, asked.out), sep="\n")
    for each in evaluations:
        print(*write_pictures(each, asked.out, images, IMAGENET.within_reach(each)), sep="\n")


def add_published(figure: "Figure", runs: Sequence[Run], question: Question) -> None:
    """Points of the paper's log of margins in the panels of its sigma."""
    thresholds = question.thresholds_for(runs[0], "margin")
    panels = iter(figure.axes)
    colours = dict(zip((OURS.key, PAPER.key, NAIVE.key), PALETTE, strict=False))
    drawn = [
        draw_published(next(panels), IMAGENET_MARGIN, run.sigma or 0.0, threshold, colours)
        for run in runs
        for threshold in thresholds
    ]
    if any(drawn):
        lines = figure.legends[0]
        handles = [*lines.legend_handles, *published_handles("another network and other images", colours)]
        lines.remove()
        figure.legend(
            handles=handles, loc="outside lower center", ncols=2, fontsize=8.5, handlelength=2.6, edgecolor="none"
        )


def rows(run: Run, questions: Mapping[str, Question]) -> Iterator[AccuracyRow]:
    """The lines of a run's table: by measure, threshold and bound."""
    for measure, question in questions.items():
        found = [row for row in accuracy_rows(run, question) if row.measure == measure]
        yield from sorted(found, key=lambda row: row.threshold or 0.0)


def markdown(tables: Mapping[Run, Sequence[AccuracyRow]]) -> Iterator[str]:
    """The lines of a page with a table for each run."""
    yield "# Certified accuracy"
    yield ""
    yield "Inputs (%) whose class is right (abstentions are not) and certified as stated within the radius, rounded down. Label, score and"
    yield "margin share a run's alpha, and every row is computed with its claim's part of it; bounds in different rows hold one at a time."
    for run, table in tables.items():
        radii = table[0].radii
        yield from ("", f"## {run.path.name}", "", f"{headline(run)}.", "")
        yield f"| certified | bound | {' | '.join(format_number(radius) for radius in radii)} |"
        yield f"|---|---|{'---:|' * len(radii)}"
        for row in table:
            values = " | ".join(percent(value) for value in row.values)
            yield f"| {claim_title(row)} | {method_title(row.method)} | {values} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of stored runs")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures and tables")
    parser.add_argument(
        "--data", help="the images that were certified, for figures 3 and 4; left out, they are skipped"
    )
    parser.add_argument("--radii", default=_RADII, help=f"default: {_RADII}")
    parser.add_argument("--score", default=_SCORES, help=f"thresholds for scores; default: {_SCORES}")
    parser.add_argument("--margin", default=_MARGINS, help=f"thresholds for margins; default: {_MARGINS}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
