"""``holdfast triage``: chooses a confidence threshold with a guarantee, and applies it to a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.table import Table

from holdfast.cli import options
from holdfast.cli.console import Terminal, check_new_file, note, say, write_new_file

if TYPE_CHECKING:
    from holdfast.runs.run import Run
    from holdfast.triage import Row, Triage
    from holdfast.triage.attack_bounds import Labelled

_SHOWN = 12
_NARROWEST = 64
"""Columns that every number of the table has room in."""


def triage(
    run: Path = typer.Argument(..., help="The folder of a certified run: labelled inputs that were not trained on."),
    radius: float = typer.Option(..., help="How far an adversary may move every input, before the service sees it."),
    epsilon: float = typer.Option(0.05, help="The largest error allowed among accepted inputs."),
    delta: float = typer.Option(0.05, help="The probability with which the labelled inputs may mislead."),
    alpha: float | None = typer.Option(
        None, help="Failure probability of one certificate and of one decision; default: epsilon/50."
    ),
    thresholds: str | None = typer.Option(
        None, help="Confidence thresholds to try, such as 0.9 or 0.95,0.9; default: 40 from 0.98 down to 0.5."
    ),
    apply: Path | None = typer.Option(None, help="Another certified run: decide on its inputs with the chosen rule."),
    out: Path | None = typer.Option(None, help="A JSON file to write, for hf.Triage.from_dict; it must not exist yet."),
    figure: Path | None = typer.Option(None, help="A new file (.png, .svg or .pdf) to draw error and coverage into."),
    format_: str = typer.Option("text", "--format", help="'text' or 'json' (on stdout)."),
) -> None:
    """Choose a confidence threshold with a guarantee on the error among accepted inputs, whatever the adversary does.

    Needs neither the model nor torch. The guarantee and its proof are in docs/triage.md. That no threshold is certified is an
    answer too, with exit code 0: everything goes to a human, and 'threshold' is null in the JSON.
    """
    from holdfast.report.figures import check_new_figure, save_figure
    from holdfast.runs.calibration_checks import was_cut
    from holdfast.runs.run import Run
    from holdfast.triage import choose_threshold

    options.choice(format_, "--format", ("text", "json"))
    tried = options.numbers(thresholds, "--thresholds")
    if out is not None:
        check_new_file(out)
    if figure is not None:
        check_new_figure(figure, "--figure")
    opened = Run.open(run)
    labelled = opened.labelled()
    applied = None if apply is None else _of_one_network(Run.open(apply), opened).labelled()
    if was_cut(opened.config):
        note(
            f"{run} was certified with --max: its inputs are the first of the dataset, in a folder of images those of the first "
            f"classes. The guarantee needs a random sample of all; --skip takes every k-th"
        )
    found = choose_threshold(
        labelled,
        radius=radius,
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        thresholds=tried,
        fingerprint=opened.fingerprint,
        spot_check=opened.spot_check,
    )
    found.notes.update(run=run.name, data=opened.config.get("data"))
    document = found.to_dict()
    if applied is not None:
        document["applied"] = {"run": str(apply), **_decisions(found, applied)}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    if out is not None:
        write_new_file(out, lambda path: path.write_text(text, encoding="utf-8"))
    if format_ == "json":
        typer.echo(text, nl=False)
    else:
        _print(found, document.get("applied"), Terminal())
    if figure is not None:
        save_figure(found.figure(), figure)
    if format_ == "text":
        for path in filter(None, (out, figure)):
            say(f"written: {path}")


def _of_one_network(applied: "Run", calibrated: "Run") -> "Run":
    from holdfast.errors import RunError

    prints = (applied.fingerprint, calibrated.fingerprint)
    if None in prints:
        note(
            f"whether {applied.path} and {calibrated.path} are of one network cannot be told: no fingerprint is recorded"
        )
    elif prints[0] != prints[1]:
        raise RunError(
            f"{applied.path} was made with other weights than {calibrated.path}; a threshold is for one network"
        )
    return applied


def _decisions(found: "Triage", labelled: "Labelled") -> dict[str, Any]:
    """The rule's verdict on each input of a run."""
    verdicts = [(found.decide(certificate), label) for certificate, label in labelled]
    accepted = [(verdict, label) for verdict, label in verdicts if verdict.accepted]
    return {
        "inputs": len(verdicts),
        "accepted": len(accepted),
        "wrong": sum(verdict.predicted != label for verdict, label in accepted),
        "handed_over": len(verdicts) - len(accepted),
        "decisions": [{"accepted": verdict.accepted, "predicted": verdict.predicted} for verdict, _ in verdicts],
    }


def _print(found: "Triage", applied: dict[str, Any] | None, console: Terminal) -> None:
    from holdfast.scores.rounding import ceil_decimals

    console.print(str(found), style="bold", soft_wrap=False)
    console.print()
    # A narrower terminal breaks the lines itself: no digit is left out.
    Terminal(width=max(_NARROWEST, console.width)).print(_table(found))
    console.print(
        "Counts of inputs: who could be accepted and wrong or surely is accepted, under any attack; and without attack. "
        "'at most': the error under attack, for that line alone. 'covers': the share accepted under any attack, at least.",
        style="dim",
    )
    scores = found.reliability
    console.print(
        f"Under any attack the Brier score of the answer is at most {ceil_decimals(scores.brier_upper, 3)} "
        f"(without: {scores.brier:.3f}), its calibration error at most {ceil_decimals(scores.ece_upper, 3)} (without: {scores.ece:.3f})."
    )
    if applied is not None:
        say(
            f"On {applied['run']}, as it is: {applied['accepted']} of {applied['inputs']} accepted, {applied['wrong']} of them "
            f"wrong; {applied['handed_over']} handed over."
        )


def _table(found: "Triage") -> Table:
    from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for title in ("from", "could be wrong", "surely right", "at most", "covers", "accepted", "wrong", ""):
        table.add_column(title, justify="right" if title else "left")
    for row in _shown(found):
        verdict = "chosen" if row == found.chosen else "certified" if row.certified else ""
        table.add_row(
            format_number(row.threshold),
            str(row.could_be_wrong),
            str(row.surely_right),
            ceil_decimals(row.error_bound, 3),
            floor_decimals(row.coverage, 3),
            str(row.clean_accepted),
            str(row.clean_wrong),
            verdict,
        )
    return table


def _shown(found: "Triage") -> "list[Row]":
    """A dozen lines of a long table, the chosen one among them."""
    step = -(-len(found.rows) // _SHOWN)
    return [row for number, row in enumerate(found.rows) if number % step == 0 or row == found.chosen]
