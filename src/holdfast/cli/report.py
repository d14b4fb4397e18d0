"""``holdfast report``: certified accuracy of runs, as text, JSON and PNG figures."""

import json
from pathlib import Path

import typer
from rich.console import Console

from holdfast.cli.parsing import choice, numbers, words


def report(
    runs: list[Path] = typer.Argument(..., help="Folders of runs, certified or imported."),
    threshold: str | None = typer.Option(None, help="Confidence thresholds, such as 0.5,0.7."),
    radii: str | None = typer.Option(None, help="Radii, such as 0,0.25,0.5."),
    methods: str | None = typer.Option(
        None,
        help="Bounds to compare, such as cdf-dkw,naive-hoeffding,naive-empirical-mean (the last is not a certificate).",
    ),
    format_: str = typer.Option("text", "--format", help="'text' or 'json' (on stdout)."),
    figures: Path | None = typer.Option(
        None, help="Folder for the PNG figures; default: figures/ in the (first) run. Text only."
    ),
) -> None:
    """Certified accuracy by radius and threshold; needs neither the model nor torch."""
    from holdfast.bounds.named import method_named
    from holdfast.progress import progress_bar
    from holdfast.report.accuracy import Question, as_json, check_runs, work
    from holdfast.report.figures import write_figures
    from holdfast.report.text import print_report
    from holdfast.runs.run import Run
    from holdfast.validation import check_radii

    choice(format_, "--format", ("text", "json"))
    asked = numbers(radii, "--radii")
    if asked is not None:
        check_radii(asked)
    chosen = None if methods is None else words(methods)
    for method in chosen or ():
        method_named(method)
    thresholds = numbers(threshold, "--threshold")
    question = Question(asked, thresholds, chosen)
    opened = [Run.open(path) for path in runs]
    check_runs(opened)
    needed = work(opened, question)
    if format_ == "json":
        with progress_bar("reporting", needed, unit="bounds") as on_inputs:
            document = as_json(opened, question, on_inputs=on_inputs)
        typer.echo(json.dumps(document, indent=2))
        return
    console = Console(highlight=False)
    with progress_bar("reporting", 2 * needed, unit="bounds") as on_inputs:
        print_report(opened, question, console, on_inputs=on_inputs)
        written = write_figures(opened, question, figures or _folder(runs), on_inputs=on_inputs)
    for path in written:
        console.print(f"figure: {path}", soft_wrap=True)


def _folder(runs: list[Path]) -> Path:
    """A run's own figures stay its own: a comparison goes into a folder named after the others."""
    others = "-".join(path.name for path in runs[1:])
    return runs[0] / "figures" / (f"with-{others[:80]}" if others else "")
