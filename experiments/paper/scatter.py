"""Prediction score against certified radius: does a large radius mean a confident answer?"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.paper.agreement import agreement
from experiments.paper.evaluation import ALPHA, Evaluation
from experiments.paper.png import write_png
from holdfast.plotting import PALETTE, house_style
from holdfast.scores.rounding import floor_significant, format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def scatter_figure(runs: Sequence[Evaluation]) -> "Figure":
    """The paper's figure 3: a point per input, a panel per sigma; both numbers certified, each alone at alpha."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(max(5.6, 4.8 * len(runs)), 4.5))
        panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
        for axes, run in zip(panels, runs, strict=True):
            radius, score = (np.array([getattr(a, name) for a in run.answers]) for name in ("label_radius", "score"))
            for right, colour, marker, name in ((True, PALETTE[0], "o", "right"), (False, PALETTE[1], "x", "wrong")):
                chosen = run.right == right
                axes.scatter(
                    radius[chosen], score[chosen], s=16, c=colour, marker=marker, alpha=0.6, label=name, linewidths=1
                )
            rho = agreement(score, {"radius": radius}, reference=None).rho["radius"]
            axes.set_title(f"sigma = {format_number(run.sigma)}; rank correlation {rho}", fontsize=10)
            axes.set_xlabel("certified radius of the label (l2)")
            axes.set_xlim(left=-0.02 * float(radius.max() or 1.0))
            axes.set_ylim(0.0, 1.02)
        panels[0].set_ylabel("certified average score at the input")
        handles, names = panels[0].get_legend_handles_labels()
        title = f"the predicted class is (n = {runs[0].n:,}, alpha = {format_number(ALPHA)} each):"
        figure.legend(handles, names, loc="outside lower center", ncols=2, title=title, fontsize=9, title_fontsize=9)
        return figure


def write_scatter(runs: Sequence[Evaluation], folder: Path) -> list[Path]:
    """The figure, and its points; radii and scores are cut to four digits, downwards."""
    target = folder / "score_against_radius.csv"
    with target.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["sigma", "index", "label", "predicted", "label_radius", "score_at_input"])
        for run in runs:
            for a in run.answers:
                numbers = (floor_significant(a.label_radius, 4), floor_significant(a.score, 4))
                rows.writerow([run.sigma, a.index, a.label, a.predicted, *(format_number(each) for each in numbers)])
    return [write_png(scatter_figure(runs), folder / "score_against_radius.png"), target]
