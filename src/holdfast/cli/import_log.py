"""``holdfast import``: a published log into a run that ``report`` can draw."""

import shlex
from pathlib import Path

import typer
from rich.console import Console

from holdfast.cli.options import MEASURED


def import_command(
    log: Path = typer.Argument(..., help="A TSV log of the paper's code or of Cohen et al.'s."),
    out: Path = typer.Option(..., help="The run's folder; it must not exist yet."),
    measure: str | None = typer.Option(
        None,
        help=f"What the bounds are of: {MEASURED}. Default: from the file's name, such as paper_margin.tsv, or numbers.",
    ),
    sigma: float | None = typer.Option(None, help="The noise it was made with; default: from the file's name."),
    noise: str | None = typer.Option(
        None, help="Instead of --sigma: a kind of noise and its scale, such as uniform:0.5."
    ),
) -> None:
    """Import a log of label radii (Cohen et al.) or of confidence bounds (the paper)."""
    from holdfast.noise import noise_named
    from holdfast.runs.imported import import_log

    run = import_log(log, out, measure=measure, sigma=sigma, noise=None if noise is None else noise_named(noise))
    known = "noise and norm unknown" if run.noise is None else run.noise.title.replace(" = ", " ")
    console = Console(highlight=False)
    of = run.measures[0]
    if of != "label" and measure is None and of not in log.name.lower():
        note = f"note: neither --measure nor the name of {log} says what its bounds are of; they are taken to be of the {of}"
        Console(stderr=True, highlight=False).print(note, style="yellow", soft_wrap=True)
    console.print(
        f"imported {len(run)} inputs ({of}, {known}) into {out}; next: holdfast report {shlex.quote(str(out))}",
        soft_wrap=True,
    )
