"""``holdfast report``: certified accuracy of runs, as text, JSON, figures and one HTML file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli import options
from holdfast.cli.console import Terminal, check_new_file, check_place, note, say, write_new_file
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.runs.run import Run

FORMATS = ("text", "json", "html", "card")


def report(
    runs: list[Path] = typer.Argument(..., help="Folders of runs, certified or imported."),
    threshold: str | None = typer.Option(None, help="Confidence thresholds, such as 0.5,0.7."),
    radii: str | None = typer.Option(None, help="Radii, such as 0,0.25,0.5."),
    methods: str | None = typer.Option(
        None,
        help="Bounds to compare, such as cdf-dkw,naive-hoeffding,naive-empirical-mean (the last is not a certificate).",
    ),
    format_: str = typer.Option(
        "text",
        "--format",
        help="'text': tables on stdout, figures and the HTML file; 'html': the HTML file alone; 'json': on stdout, or in --out; "
        "'card': likewise, YAML metadata for a model card (Hugging Face's model-index).",
    ),
    figures: Path | None = typer.Option(
        None, help="Folder for the figures (PNG, SVG and PDF); default: figures/ in the (first) run. Text only."
    ),
    out: Path | None = typer.Option(
        None,
        help="The HTML file; default: report.html in the folder of the figures. With 'json' and 'card': a new file, instead of stdout.",
    ),
    data: list[str] | None = typer.Option(
        None, help="The data of a run, as for certify, for pictures of its inputs in the HTML file. May be repeated."
    ),
) -> None:
    """Certified accuracy by radius and threshold, and every input; needs neither the model nor torch."""
    from holdfast.bounds.named import method_named
    from holdfast.progress import progress_bar
    from holdfast.report.accuracy import Question, as_json, check_runs, work
    from holdfast.report.figures import write_figures
    from holdfast.report.model_card import model_card
    from holdfast.report.page import check_replaceable, write_page
    from holdfast.report.report import PAGE, tabulate, usual_folder
    from holdfast.report.text import print_report
    from holdfast.report.thumbnails import pictures_of
    from holdfast.runs.run import Run

    options.choice(format_, "--format", FORMATS)
    asked = options.radii(radii)
    chosen = None if methods is None else options.words(methods)
    for method in chosen or ():
        method_named(method)
    question = Question(asked, options.numbers(threshold, "--threshold", example="0.5,0.7"), chosen)
    folder = figures or usual_folder(runs)
    page = out or folder / PAGE
    opened = [Run.open(path) for path in runs]
    printed = format_ in ("json", "card")
    if not printed:
        check_replaceable(page)
        check_place(page)
        if page.suffix.lower() not in (".html", ".htm"):
            raise InvalidArgument(
                f"--out is the HTML file and must end in .html, got {page}; --figures takes a folder for all files"
            )
        if format_ == "text":
            check_place(folder / PAGE)
    elif out is not None:
        check_new_file(out)
    check_runs(opened)
    _note_thresholds(opened, question.thresholds or ())
    pictures = {} if printed else pictures_of(opened, data or ())
    with progress_bar("reporting", work(opened, question), unit="bounds") as on_inputs:
        if printed:
            for run in opened:
                run.tabulate(question.radii_for(run), on_inputs=on_inputs)
            as_card = format_ == "card"
            text = model_card(opened, question) if as_card else json.dumps(as_json(opened, question), indent=2) + "\n"
            if out is None:
                typer.echo(text, nl=False)
            else:
                write_new_file(out, lambda path: path.write_text(text, encoding="utf-8"))
            return
        axis = tabulate(opened, question, on_inputs)
        if format_ == "text":
            print_report(opened, question, Terminal())
            for path in write_figures(opened, question, folder):
                say(f"figure: {path}")
        write_page(opened, question, axis, page, pictures=pictures)
    say(f"report: {page} (open it in a browser)")


def _note_thresholds(runs: "list[Run]", thresholds: Sequence[float]) -> None:
    """Point out thresholds that a measure is never, or always, above."""
    from holdfast.report.accuracy import measures_of
    from holdfast.scores.rounding import format_number

    for measure in (each for each in measures_of(runs) if each != "label"):
        low, high = next(run.measure(measure).support for run in runs if measure in run.measures)
        for threshold in thresholds:
            if low <= threshold < high:
                continue
            every = "no input is above" if threshold >= high else "every input is above"
            note(
                f"the {measure} is between {low:g} and {high:g}: {every} threshold {format_number(threshold)}, whatever its bounds"
            )
