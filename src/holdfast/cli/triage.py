"""``holdfast triage``: chooses a confidence threshold with a guarantee, and applies it to a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.table import Table

from holdfast.cli import options
from holdfast.cli.console import Terminal, check_new_file, check_place, say, write_new_file
from holdfast.cli.drift import compare_networks, note_if_cut
from holdfast.errors import InvalidArgument, NoThreshold

if TYPE_CHECKING:
    from holdfast.runs.run import Run
    from holdfast.triage import Row, Triage
    from holdfast.triage.attack_bounds import Labelled
    from holdfast.triage.promise import Promise

_SHOWN = 12
_NARROWEST = 80
"""Columns that every number of the table has room in."""
_COLUMNS = (
    "threshold",
    "could be wrong",
    "surely accepted",
    "error at most",
    "share accepted",
    "accepted as is",
    "wrong as is",
)
_COUNTS = (100, 200, 500, 1_000, 2_000, 5_000)
_COPIES, _N0 = (500, 1_000, 5_000, 10_000, 100_000), 100
_THRESHOLDS, _EXAMPLE = (0.5, 0.7, 0.9, 0.98), 0.9


def triage(
    run: Path | None = typer.Argument(
        None,
        help="The folder of a certified run: labelled inputs that were not trained on. Without it: how many that takes.",
    ),
    radius: float | None = typer.Option(
        None, help="How far an adversary may move every input, before the service sees it; needed with a run."
    ),
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

    Needs neither the model nor torch. The guarantee and its proof are in docs/triage.md. Without a run, it says how many labelled
    inputs and noisy copies it takes. Exits with 13 if no threshold is certified: everything goes to a human, and 'threshold' is
    null in the JSON.
    """
    from holdfast.report.figures import check_new_figure, save_figure
    from holdfast.runs.run import Run
    from holdfast.triage import choose_threshold
    from holdfast.triage.promise import Promise
    from holdfast.validation import check_radius

    options.choice(format_, "--format", ("text", "json"))
    tried = options.numbers(thresholds, "--thresholds", example="0.95,0.9")
    promise = Promise.of(epsilon=epsilon, delta=delta, alpha=alpha, thresholds=tried)
    if run is None:
        if format_ == "json" or any(each is not None for each in (radius, apply, out, figure)):
            raise InvalidArgument("expected RUN, the folder of a certified run; without it there are no such options")
        _print_needs(promise)
        return
    if radius is None:
        raise InvalidArgument(
            "expected --radius, how far an adversary may move every input, such as --radius 0.1; got none"
        )
    check_radius(radius, "--radius")
    if out is not None:
        check_new_file(out)
    if figure is not None:
        check_new_figure(figure, "--figure")
        check_place(figure)
    opened = Run.open(run)
    labelled = opened.labelled()
    applied = None
    if apply is not None:
        other = Run.open(apply)
        compare_networks(other, opened.fingerprint, str(run))
        applied = other.labelled()
    if format_ == "text":
        say(_enough(promise, opened))
    note_if_cut(opened, "The guarantee needs a random sample of all")
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
    if found.threshold is None:
        raise NoThreshold(
            f"no threshold is certified for {run}; more labelled inputs, a smaller radius or a larger epsilon may change that, with "
            f"new inputs: another try with these spends delta again"
        )


def _enough(promise: "Promise", run: "Run") -> str:
    """Whether a run is large enough, before anything is computed from it."""
    from holdfast.scores.rounding import ceil_decimals

    inputs, n, n0 = len(run), int(run.config["n"]), int(run.config["n0"])
    wrong, sure = promise.could_be_wrong(inputs), promise.sure_from(_EXAMPLE, n, n0)
    first = (
        f"{inputs:,} labelled inputs, and at least {promise.inputs:,} are needed"
        if wrong is None
        else f"{inputs:,} labelled inputs: a threshold can pass if at most {wrong:,} could be wrong and all others are surely accepted"
    )
    return f"{first}. {n:,} + {n0:,} noisy copies: at threshold {_EXAMPLE:g} " + (
        f"an input is surely accepted from an average score of {ceil_decimals(sure, 3)} on."
        if sure <= 1
        else "nothing can be accepted."
    )


def _print_needs(promise: "Promise") -> None:
    from holdfast.scores.rounding import ceil_decimals, format_number

    say(
        f"For an error of at most {format_number(promise.epsilon)} among accepted inputs, with probability at least "
        f"{1 - promise.delta:g}: at least {promise.inputs:,} labelled inputs. With more, some could be wrong:",
        style="bold",
    )
    inputs = _new_table("labelled inputs", "of which could be wrong, at most")
    for count in (promise.inputs, *(count for count in _COUNTS if count > promise.inputs)):
        inputs.add_row(f"{count:,}", f"{promise.could_be_wrong(count):,}")
    Terminal().print(inputs)
    say("\nAn input is surely accepted from this average score on, by the number n of noisy copies:", style="bold")
    copies = _new_table("n", *(f"threshold {threshold:g}" for threshold in _THRESHOLDS))
    for n in _COPIES:
        found = [promise.sure_from(threshold, n, _N0) for threshold in _THRESHOLDS]
        copies.add_row(f"{n:,}", *("never" if sure > 1 else ceil_decimals(sure, 3) for sure in found))
    Terminal().print(copies)


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
        "Counts of inputs under any attack, and without attack as they are. The error bound is for that line alone; the share "
        "surely accepted is a lower bound.",
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

    table = _new_table(*_COLUMNS, "")
    for row in _shown(found):
        verdict = "chosen" if row == found.chosen else "passed" if row.certified else ""
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


def _new_table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for title in titles:
        longest = max(map(len, title.split()), default=0)  # a narrow terminal breaks titles between words only
        table.add_column(title, justify="right" if title else "left", min_width=longest)
    return table


def _shown(found: "Triage") -> "list[Row]":
    """A dozen lines of a long table, and the one that the sentence above it names."""
    step, named = -(-len(found.rows) // _SHOWN), found.chosen or found.best
    return [row for number, row in enumerate(found.rows) if number % step == 0 or row == named]
