"""``holdfast import``: a published log into a run that ``report`` can draw."""

import shlex
from pathlib import Path

import typer
from rich.console import Console


def import_command(
    log: Path = typer.Argument(..., help="A TSV log of the paper's code or of Cohen et al.'s."),
    out: Path = typer.Option(..., help="The run's folder; it must not exist yet."),
    measure: str | None = typer.Option(None, help="'score' or 'margin'; default: from the file's name and numbers."),
    sigma: float | None = typer.Option(None, help="The noise it was made with; default: from the file's name."),
) -> None:
    """Import a log of label radii (Cohen et al.) or of confidence bounds (the paper)."""
    from holdfast.runs.imported import import_log

    run = import_log(log, out, measure=measure, sigma=sigma)
    known = "noise unknown" if run.noise is None else run.noise.title.replace(" = ", " ")
    console = Console(highlight=False)
    console.print(
        f"imported {len(run)} inputs ({run.measures[0]}, {known}) into {out}; next: holdfast report {shlex.quote(str(out))}",
        soft_wrap=True,
    )
