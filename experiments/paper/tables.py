"""Tables of certified accuracy, next to what was published."""

from collections.abc import Sequence
from pathlib import Path

from experiments.paper.accuracy import Counts
from experiments.paper.evaluation import ALPHA, LINES, PLAIN, RADII, THRESHOLDS, Evaluation
from experiments.paper.published import LABEL, SCORE
from holdfast.scores.rounding import format_number

PUBLISHED = "published"
_INTRODUCTION = f"""# Certified accuracy on CIFAR-10

Written by `python -m experiments.paper.figures` from stored runs. Each value is the share of inputs whose predicted class is
right and whose bound is strictly above the threshold at every perturbation up to the radius. As in the paper, each claim stands
alone at alpha = {format_number(ALPHA)} (a Holdfast certificate otherwise divides alpha among its claims), and the class is the one with the
largest average score over the selection copies. Lines marked * are estimates for comparison, not certificates.

Every row says which network it is about. "Published" are Kumar et al. 2020 (scores) and Cohen et al. 2019 (labels), recomputed from
their per-image logs: other networks, trained with noise and no further term, and certified on the same images. "{PLAIN}" is
how these were trained: sections of such networks compare like with like, and come first, if there are any. Shares are cut
after three digits, never rounded up.
"""


def write_tables(counts: Counts, folder: Path) -> list[Path]:
    """``tables.md``: a section per run."""
    target = folder / "tables.md"
    target.write_text("\n".join([_INTRODUCTION, *(_section(counts, run) for run in counts.runs)]), encoding="utf-8")
    return [target]


def _section(counts: Counts, run: Evaluation) -> str:
    right = _share(int(run.right.sum()), len(run))
    lines = [
        f"## sigma = {format_number(run.sigma)}, {run.network}",
        "",
        f"The run {run.name}: {len(run)} inputs, n = {run.n:,}, the network in {run.precision}; the predicted class is right for {right}.",
        "",
        f"| certified | network | bound | {' | '.join(f'R = {format_number(radius)}' for radius in RADII)} |",
        f"|---|---|---|{'---|' * len(RADII)}",
    ]
    for measure, thresholds in THRESHOLDS.items():
        for k, threshold in enumerate(thresholds):
            claim = f"{measure} > {format_number(threshold)}"
            for line in LINES:
                star = "" if line.certified else "*"
                shares = [_share(each, len(run)) for each in counts.at(run, counts.of(run, measure, line)[k])]
                title = f"{line.title.replace(' (not certified)', '')}{star}"
                lines.append(_row(claim, run.network, title, shares))
                if measure == "score" and (run.sigma, line.key, threshold) in SCORE:
                    lines.append(
                        _row(claim, PUBLISHED, line.title, _thousandths(SCORE[run.sigma, line.key, threshold]))
                    )
    shares = [_share(each, len(run)) for each in counts.at(run, counts.labels(run))]
    lines.append(_row("label", run.network, "votes (Clopper-Pearson)", shares))
    if run.sigma in LABEL:
        lines.append(_row("label", PUBLISHED, "votes (Clopper-Pearson)", _thousandths(LABEL[run.sigma])))
    return "\n".join([*lines, ""])


def _row(claim: str, network: str, bound: str, shares: Sequence[str]) -> str:
    return f"| {claim} | {network} | {bound} | {' | '.join(shares)} |"


def _share(count: int, inputs: int) -> str:
    """A count's share, cut after three digits in whole numbers."""
    thousandths = 1000 * count // inputs
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def _thousandths(values: Sequence[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]
