"""Every figure and table of the paper for CIFAR-10, from stored runs: no GPU, no network, nothing sampled.

python -m experiments.paper.figures --runs RUN RUN --data cifar10.npz --out experiments/paper/results
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.paper.accuracy import Counts, write_accuracy
from experiments.paper.evaluation import Evaluation, in_order
from experiments.paper.margin import write_margin
from experiments.paper.overview import write_overview
from experiments.paper.pictures import write_pictures
from experiments.paper.scatter import write_scatter
from experiments.paper.softmax import PlainSoftmax
from experiments.paper.tables import write_tables
from experiments.paper.worst_case import write_worst_case
from holdfast.errors import HoldfastError
from holdfast.report.thumbnails import check_same_inputs
from holdfast.zoo.datasets.open import open_dataset


def draw(runs: Sequence[Path], out: Path, *, data: str | None = None) -> list[Path]:
    """Write everything into ``out``; the picture grids only if the images are given."""
    evaluations = in_order(Evaluation.open(path) for path in runs)
    if len({run.name for run in evaluations}) != len(evaluations):
        raise HoldfastError("two of the runs have folders of the same name, and their figures would too; rename one")
    if data is not None:
        images = open_dataset(data, split="test")
        for run in evaluations:
            check_same_inputs(run.run, images)
    for run in evaluations:
        PlainSoftmax.beside(run.run.path)
    out.mkdir(parents=True, exist_ok=True)
    counts = Counts(evaluations)
    written = [
        *write_overview(counts, out),
        *write_accuracy(counts, out),
        *write_tables(counts, out),
        *write_scatter(evaluations, out),
        *write_worst_case(out),
        *write_margin(out),
    ]
    if data is not None:
        for run in evaluations:
            written += write_pictures(run, out, images)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Draw every figure of the paper for CIFAR-10 from stored runs.")
    parser.add_argument("--runs", nargs="+", type=Path, required=True, help="run folders, one for each network")
    parser.add_argument("--data", help="CIFAR-10, for the picture grids; left out, they are skipped")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder for the files")
    asked = parser.parse_args(arguments)
    try:
        written = draw(asked.runs, asked.out, data=asked.data)
    except HoldfastError as error:
        print(f"figures: {error}", file=sys.stderr)
        return error.exit_code
    for path in written:
        print(path)
    if asked.data is None:
        print("the picture grids were skipped: they need the images, --data", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
