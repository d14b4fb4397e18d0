"""Error and coverage against the threshold."""

from typing import TYPE_CHECKING

import numpy as np

from holdfast.plotting import PALETTE, house_style
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from holdfast.triage.result import Triage


def triage_figure(triage: "Triage") -> "Figure":
    """Left the error among accepted, right the share accepted: under any attack (certified) and at the inputs themselves."""
    from matplotlib.figure import Figure

    rows = sorted(triage.rows, key=lambda row: row.threshold)
    at = np.array([row.threshold for row in rows])
    accepted = np.array([row.clean_accepted for row in rows])
    wrong = np.array([row.clean_wrong for row in rows])
    blue, orange = PALETTE[0], PALETTE[1]
    with house_style():
        figure = Figure(figsize=(9.2, 4.3))
        error, coverage = figure.subplots(1, 2, sharex=True)
        # Where nothing is shown the bound is one, and the line leaves the frame upwards.
        error.plot(at, [row.error_bound for row in rows], color=orange, label="any attack: upper bound")
        counted = [row.observed if row.could_be_wrong + row.surely_right else np.nan for row in rows]
        error.plot(at, counted, ":", color=orange, label="any attack: counted")
        clean = np.where(accepted > 0, wrong / np.maximum(1, accepted), np.nan)
        error.plot(at, clean, "--", color=blue, label="no attack: counted")
        error.axhline(triage.epsilon, color="0.4", linewidth=1.0)
        error.annotate("epsilon", (at[0], triage.epsilon), xytext=(2, 2), textcoords="offset points", fontsize=8)
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
                axes.axvline(triage.threshold, color=PALETTE[2], linewidth=1.2, label="chosen")
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)
        figure.suptitle(
            f"radius {format_number(triage.radius)}, {triage.inputs} inputs, delta = {format_number(triage.delta)}",
            fontsize=10,
        )
        return figure
