"""``holdfast compact``: a smaller copy of a run."""

import shlex
from pathlib import Path

import typer
from rich.console import Console


def compact(
    run: Path = typer.Argument(..., help="A run's folder; it is left as it is."),
    out: Path = typer.Option(..., help="The folder of the copy; it must not exist yet."),
    bins: int = typer.Option(2_048, help="Bins of each histogram: the run's, halved any number of times."),
) -> None:
    """Copy a run with its scores counted on a coarser grid: still valid, a little looser, far smaller."""
    from holdfast.runs.compact import compact_run
    from holdfast.runs.run import Run

    copy = compact_run(Run.open(run), out, bins=bins)
    before, after = (
        sum(path.stat().st_size for path in (folder / "certificates").glob("*")) for folder in (run, copy.path)
    )
    Console(highlight=False).print(
        f"{len(copy)} certificates in {out}: {after / 1e6:.2f} MB, from {before / 1e6:.2f} MB; "
        f"next: holdfast report {shlex.quote(str(out))}",
        soft_wrap=True,
    )
