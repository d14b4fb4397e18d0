"""Tables of certified accuracy, next to what was published."""

from collections.abc import Sequence
from pathlib import Path

from experiments.paper.accuracy import Counts
from experiments.paper.evaluation import ALPHA, LINES, RADII, THRESHOLDS, Evaluation
from experiments.paper.published import LABEL, SCORE
from holdfast.scores.rounding import format_number

_INTRODUCTION = f"""# Certified accuracy on CIFAR-10

Written by `python -m experiments.paper.figures` from stored runs. Each value is the share of inputs whose predicted class is
right and whose bound is strictly above the threshold at every perturbation up to the radius. As in the paper, each claim stands
alone at alpha = {format_number(ALPHA)} (a Holdfast certificate otherwise divides alpha among its claims), and the class is the one with the
largest average score over the selection copies. Lines marked * are estimates for comparison, not certificates. Rows
marked "published" are Kumar et al. 2020 (scores) and Cohen et al. 2019 (labels), recomputed from their per-image logs: other
networks, certified on the same images. Shares are cut after three digits, never rounded up.
"""


def write_tables(counts: Counts, folder: Path) -> list[Path]:
    """``tables.md``: a section per run."""
    target = folder / "tables.md"
    target.write_text("\n".join([_INTRODUCTION, *(_section(counts, run) for run in counts.runs)]), encoding="utf-8")
    return [target]


def _section(counts: Counts, run: Evaluation) -> str:
    right = _share(int(run.right.sum()), len(run))
    lines = [
        f"## sigma = {format_number(run.sigma)}",
        "",
        f"{len(run)} inputs, n = {run.n:,}, the network in {run.precision}; the predicted class is right for {right}.",
        "",
        f"| certified | by | {' | '.join(f'R = {format_number(radius)}' for radius in RADII)} |",
        f"|---|---|{'---|' * len(RADII)}",
    ]
    for measure, thresholds in THRESHOLDS.items():
        for k, threshold in enumerate(thresholds):
            claim = f"{measure} > {format_number(threshold)}"
            for line in LINES:
                star = "" if line.certified else "*"
                shares = [_share(each, len(run)) for each in counts.at(run, counts.of(run, measure, line)[k])]
                lines.append(_row(claim, f"{line.title.replace(' (not certified)', '')}{star}", shares))
                if measure == "score" and (run.sigma, line.key, threshold) in SCORE:
                    lines.append(
                        _row(claim, f"{line.title}, published", _published(SCORE[run.sigma, line.key, threshold]))
                    )
    shares = [_share(each, len(run)) for each in counts.at(run, counts.labels(run))]
    lines.append(_row("label", "votes (Clopper-Pearson)", shares))
    if run.sigma in LABEL:
        lines.append(_row("label", "votes, published", _published(LABEL[run.sigma])))
    return "\n".join([*lines, ""])


def _row(claim: str, by: str, shares: Sequence[str]) -> str:
    return f"| {claim} | {by} | {' | '.join(shares)} |"


def _share(count: int, inputs: int) -> str:
    """A count's share, cut after three digits in whole numbers."""
    thousandths = 1000 * count // inputs
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def _published(values: Sequence[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]
