"""What the margin is: the lead of a class over the best other one."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.paper.evaluation import CIFAR10_NAMES
from experiments.paper.written import write_figure
from holdfast.plotting import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = (0.03, 0.02, 0.11, 0.52, 0.06, 0.21, 0.02, 0.01, 0.01, 0.01)
"""Made-up scores of one noisy copy, in the order of CIFAR-10's classes."""


def margin_figure() -> "Figure":
    """The paper's figure 2: scores of one noisy copy, and the margin of the largest."""
    from holdfast.house_figure import HouseFigure

    first, second = np.argsort(SCORES)[::-1][:2].tolist()
    low, high = SCORES[second], SCORES[first]
    figure = HouseFigure(figsize=(5.6, 3.4))
    axes = figure.subplots()
    colours = [PALETTE[0] if k == first else PALETTE[1] if k == second else "0.75" for k in range(len(SCORES))]
    axes.bar(range(len(SCORES)), SCORES, color=colours, width=0.7)
    beyond = len(SCORES) - 0.4
    for height in (low, high):
        axes.hlines(height, first if height == high else second, beyond, color="0.4", linewidth=1.0, linestyle=":")
    axes.annotate("", xy=(beyond, high), xytext=(beyond, low), arrowprops={"arrowstyle": "<->", "color": "0.2"})
    axes.text(beyond - 0.2, (low + high) / 2, f"margin {high - low:.2f}", ha="right", va="center")
    axes.set_xticks(range(len(SCORES)), CIFAR10_NAMES, rotation=40, ha="right", fontsize=9)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0.0, 0.6)
    axes.set_ylabel("prediction score")
    return figure


def write_margin(folder: Path) -> list[Path]:
    """The figure; its numbers are in this file."""
    return write_figure(margin_figure(), folder / "margin.png")
