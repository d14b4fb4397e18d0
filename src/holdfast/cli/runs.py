"""``holdfast import``, ``export`` and ``compact``: runs into other forms, and back."""

from pathlib import Path

import typer

from holdfast.cli import options
from holdfast.cli.console import check_new_file, note, report_command, say


def import_command(
    log: Path = typer.Argument(..., help="A TSV log of the paper's code or of Cohen et al.'s."),
    out: Path = typer.Option(..., help="The run's folder; it must not exist yet, unless it is of this very log."),
    measure: str | None = typer.Option(
        None,
        help=f"What the bounds are of: {options.MEASURED}. Default: from the file's name, such as paper_margin.tsv, or numbers.",
    ),
    sigma: float | None = typer.Option(None, help="The noise it was made with; default: from the file's name."),
    noise: str | None = typer.Option(
        None, help="Instead of --sigma: a kind of noise and its scale, such as uniform:0.5."
    ),
) -> None:
    """Import a log of label radii (Cohen et al.) or of confidence bounds (the paper)."""
    from holdfast.noise import noise_named
    from holdfast.runs.imported import import_log
    from holdfast.scores.rounding import format_count

    complete: list[str] = []
    run = import_log(
        log,
        out,
        measure=measure,
        sigma=sigma,
        noise=None if noise is None else noise_named(noise),
        say=complete.append,
    )
    known = "noise and norm unknown" if run.noise is None else run.noise.title.replace(" = ", " ")
    of = run.measures[0]
    if of != "label" and measure is None and run.origin is None and of not in log.name.lower():
        note(f"neither --measure nor the name of {log} says what its bounds are of; they are taken to be of the {of}")
    done = complete or [f"imported {format_count(len(run), 'input')} ({of}, {known}) into {out}"]
    say(f"{done[0]}; next: {report_command(out)}")


def export(
    run: Path = typer.Argument(..., help="A run's folder."),
    out: Path = typer.Option(..., help="The TSV file to write; it must not exist yet."),
    measure: str = typer.Option(..., help="'label' for Cohen et al.'s format; the name of a measure for the paper's."),
) -> None:
    """Write a run as a TSV log; bounds and radii are rounded down to three digits."""
    from holdfast.runs.run import Run
    from holdfast.scores.rounding import format_count

    check_new_file(out)
    opened = Run.open(run)
    opened.export(measure, out)
    planned, rest = opened.config.get("inputs", len(opened)), ""
    if planned != len(opened):
        rest = f", of {format_count(planned, 'input')}: the others are not certified, or their files are missing"
    say(f"{format_count(len(opened), 'row')} in {out}{rest}")


def compact(
    run: Path = typer.Argument(..., help="A run's folder; it is left as it is."),
    out: Path = typer.Option(..., help="The folder of the copy; it must not exist yet, unless it is this very copy."),
    bins: int = options.count(2_048, help="Bins of each histogram: the run's, halved any number of times."),
) -> None:
    """Copy a run with its scores counted on a coarser grid: still valid, a little looser, far smaller."""
    from holdfast.runs.compact import compact_run
    from holdfast.runs.run import Run
    from holdfast.scores.rounding import format_count

    copy = compact_run(Run.open(run), out, bins=bins, say=say)
    before, after = (
        sum(path.stat().st_size for path in (folder / "certificates").glob("*")) for folder in (run, copy.path)
    )
    say(
        f"{format_count(len(copy), 'certificate')} in {out}: {after / 1e6:.2f} MB, from {before / 1e6:.2f} MB; next: {report_command(out)}"
    )
