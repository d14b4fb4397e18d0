"""``holdfast drift``: whether new inputs are still like those that a threshold was calibrated on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli import options
from holdfast.cli.console import note, say
from holdfast.errors import DriftFound, InvalidArgument, RunError, reading

if TYPE_CHECKING:
    from holdfast.runs.run import Run
    from holdfast.triage import Triage


def drift(
    triage: Path = typer.Argument(..., help="What 'holdfast triage --out' wrote."),
    run: Path = typer.Argument(
        ..., help="The folder of a run of new inputs, certified with the same n and n0; their labels are not looked at."
    ),
    alpha: float = typer.Option(0.01, help="How likely a false alarm may be."),
    format_: str = typer.Option("text", "--format", help="'text' or 'json' (on stdout)."),
) -> None:
    """Do new inputs look like those that a threshold was calibrated on? The guarantee of a triage is about such inputs only.

    Compares average scores by an exact two-sample Kolmogorov-Smirnov test, and exits with 14 if they differ. If the inputs are
    alike, that happens with probability at most --alpha. Needs neither the model nor torch.
    """
    from holdfast.runs.run import Run

    options.choice(format_, "--format", ("text", "json"))
    calibrated, opened = read_triage(triage, "TRIAGE"), Run.open(run)
    compare_networks(opened, calibrated.fingerprint, str(triage))
    note_if_cut(opened, "They are compared with a random sample of all")
    found = calibrated.drift([calibrated.score(certificate) for certificate, _ in opened.labelled()], alpha=alpha)
    if format_ == "json":
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        say(str(found))
    if found.drifted:
        raise DriftFound(
            f"{run} has drifted from what {triage} was calibrated on; its guarantee does not hold for such inputs"
        )


def read_triage(path: Path, name: str) -> "Triage":
    """What ``holdfast triage --out`` wrote, given as an option or argument of this name."""
    from holdfast.triage import Triage

    remedy = f"{name} must be a file that 'holdfast triage --out' wrote"
    with reading(path, InvalidArgument, "cannot be read", remedy=remedy):
        document = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Triage.from_dict(document)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}; {remedy}") from error


def compare_networks(run: "Run", fingerprint: str | None, calibrated: str) -> None:
    """Refuse a run of another network; say if that cannot be told."""
    if None in (run.fingerprint, fingerprint):
        note(f"whether {run.path} and {calibrated} are of one network cannot be told: no fingerprint is recorded")
    elif run.fingerprint != fingerprint:
        raise RunError(f"{run.path} was made with other weights than {calibrated}; a threshold is for one network")


def note_if_cut(run: "Run", why: str) -> None:
    """Point out that a run holds the first inputs of its dataset."""
    from holdfast.runs.calibration_checks import was_cut

    if was_cut(run.config):
        note(
            f"{run.path} was certified with --max: its inputs are the first of the dataset, in a folder of images those of the "
            f"first classes. {why}; --skip takes every k-th"
        )
