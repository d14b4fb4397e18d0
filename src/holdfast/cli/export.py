"""``holdfast export``: a run as a log that other people's scripts read."""

from pathlib import Path

import typer
from rich.console import Console


def export(
    run: Path = typer.Argument(..., help="A run's folder."),
    out: Path = typer.Option(..., help="The TSV file to write; it must not exist yet."),
    measure: str = typer.Option(..., help="'label' for Cohen et al.'s format; the name of a measure for the paper's."),
) -> None:
    """Write a run as a TSV log; bounds and radii are rounded down to three digits."""
    from holdfast.errors import RunError
    from holdfast.runs.folder import RunFolder
    from holdfast.runs.run import Run
    from holdfast.runs.tsv import write_log

    if not out.absolute().parent.is_dir():
        raise RunError(f"the folder of {out} does not exist; create it first")
    opened = Run.open(run)
    log = opened.export(measure)
    RunFolder(out.absolute().parent).write(out.name, lambda path: write_log(path, log))
    planned = opened.config.get("inputs", len(log))
    rest = (
        ""
        if planned == len(log)
        else f", of {planned} inputs: the others are not certified, or their files are missing"
    )
    Console(highlight=False).print(f"{len(log)} rows in {out}{rest}", soft_wrap=True)
