"""Error and coverage against the threshold."""

from typing import TYPE_CHECKING

import numpy as np

from holdfast.notebook import Chart, Line, card
from holdfast.plotting import PALETTE, in_symbols
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from holdfast.triage.result import Triage


def triage_figure(triage: "Triage") -> "Figure":
    """Left the error among accepted, right the share accepted: under any attack (certified) and at the inputs themselves."""
    from holdfast.house_figure import HouseFigure

    rows = sorted(triage.rows, key=lambda row: row.threshold)
    at = np.array([row.threshold for row in rows])
    accepted = np.array([row.clean_accepted for row in rows])
    wrong = np.array([row.clean_wrong for row in rows])
    blue, orange = PALETTE[0], PALETTE[1]
    figure = HouseFigure(figsize=(9.2, 4.3))
    error, coverage = figure.subplots(1, 2, sharex=True)
    # Where nothing is shown the bound is one, and the line leaves the frame upwards.
    error.plot(at, [row.error_bound for row in rows], color=orange, label="any attack: upper bound")
    counted = [row.observed if row.could_be_wrong + row.surely_right else np.nan for row in rows]
    error.plot(at, counted, ":", color=orange, label="any attack: counted")
    clean = np.where(accepted > 0, wrong / np.maximum(1, accepted), np.nan)
    error.plot(at, clean, "--", color=blue, label="no attack: counted")
    error.axhline(triage.epsilon, color="0.4", linewidth=1.0)
    error.annotate("ε", (1.01, triage.epsilon), xycoords=("axes fraction", "data"), va="center")
    error.set_ylabel("error among accepted")
    error.set_ylim(0.0, min(1.0, max(4 * triage.epsilon, 1.3 * float(np.nanmax(np.append(clean, 0.0))))))
    coverage.plot(at, [row.coverage for row in rows], color=orange, label="any attack: lower bound")
    coverage.plot(
        at, [row.surely_right / triage.inputs for row in rows], ":", color=orange, label="any attack: counted"
    )
    coverage.plot(at, accepted / triage.inputs, "--", color=blue, label="no attack: counted")
    coverage.set_ylabel("accepted")
    coverage.set_ylim(0.0, 1.0)
    for axes in (error, coverage):
        axes.set_xlabel("confidence threshold")
        if triage.threshold is not None:
            axes.axvline(triage.threshold, color=PALETTE[2], linewidth=1.2, label="chosen threshold")
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, edgecolor="none")
    figure.suptitle(
        f"{triage.inputs:,} inputs, {in_symbols(triage.origin.noise.title)}; perturbations up to radius "
        f"{format_number(triage.radius)} ({in_symbols(triage.origin.noise.norm)}); "
        f"ε = {format_number(triage.epsilon)}, δ = {format_number(triage.delta)}",
        fontsize=10,
    )
    return figure


def triage_card(triage: "Triage") -> str:
    """The sentence and the certified errors, as a notebook shows them."""
    rows = sorted(triage.rows, key=lambda row: row.threshold)
    at = np.array([row.threshold for row in rows])
    some = np.array([row.could_be_wrong + row.surely_right > 0 for row in rows])
    if not some.any() or at[0] == at[-1]:
        return card(str(triage))
    chart = Chart(
        [
            Line("any attack: upper bound", at, np.array([row.error_bound for row in rows])),
            Line("any attack: counted", at[some], np.array([row.observed for row in rows])[some], dotted=True),
        ],
        x_label="confidence threshold",
        y_label="error among accepted",
        x_range=(float(at[0]), float(at[-1])),
        y_range=(0.0, min(1.0, 4 * triage.epsilon)),
        at=None if triage.threshold is None else (triage.threshold, "chosen threshold"),
        level=(triage.epsilon, "ε"),
    )
    return card(str(triage), chart)
