"""A report of runs from Python: what ``holdfast report`` writes, and its tables."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console

from holdfast.bounds import Method
from holdfast.bounds.named import method_named
from holdfast.errors import InvalidArgument
from holdfast.printable import printable
from holdfast.progress import OnDone, ignore
from holdfast.report.accuracy import Question, as_json, check_runs
from holdfast.report.axis import radius_axis
from holdfast.report.figures import write_figures
from holdfast.report.page import check_replaceable, write_page
from holdfast.report.text import print_report
from holdfast.report.thumbnails import pictures_of
from holdfast.runs.method_names import method_name, several
from holdfast.runs.run import Run
from holdfast.validation import check_numbers, check_path, check_radii

PAGE = "report.html"
_WIDTH = 100


@dataclass(frozen=True)
class Report:
    """Certified accuracy of runs. Printed, it is a table for each run.

    Attributes:
        page: the HTML file.
        figures: the files with the figures.
    """

    runs: tuple[Run, ...]
    question: Question
    page: Path
    figures: tuple[Path, ...]

    def __str__(self) -> str:
        text = io.StringIO()
        plain = Console(file=text, width=_WIDTH, highlight=False, markup=False, emoji=False)
        print_report(self.runs, self.question, plain)
        return "\n".join(map(printable, text.getvalue().rstrip().split("\n")))

    def __repr__(self) -> str:
        return f"Report({', '.join(str(run.path) for run in self.runs)}; {self.page}, {len(self.figures)} figures)"

    def to_dict(self) -> dict[str, Any]:
        """The numbers, as ``holdfast report --format json`` prints them."""
        return as_json(self.runs, self.question)


def write_report(
    runs: Sequence[Run],
    out: str | Path | None = None,
    *,
    radii: ArrayLike | None = None,
    thresholds: ArrayLike | None = None,
    methods: Sequence[Method | str] | None = None,
    data: str | Sequence[str] = (),
) -> Report:
    """Write the figures and the HTML file of one report into a folder."""
    for run in runs:
        if not isinstance(run, Run):
            raise InvalidArgument(f'expected runs, such as Run.open("runs/b"), got {run!r}')
    question = Question(
        None if radii is None else tuple(check_radii(np.atleast_1d(check_numbers("radii", radii)), "radii").tolist()),
        None if thresholds is None else tuple(np.atleast_1d(check_numbers("thresholds", thresholds)).tolist()),
        None if methods is None else tuple(map(_name, several(methods))),
    )
    folder = usual_folder([run.path for run in runs]) if out is None else check_path("out", out)
    page = folder / PAGE
    check_replaceable(page)
    check_runs(runs)
    pictures = pictures_of(runs, (data,) if isinstance(data, str) else tuple(data))
    axis = tabulate(runs, question)
    figures = tuple(write_figures(runs, question, folder))
    write_page(runs, question, axis, page, pictures=pictures)
    return Report(tuple(runs), question, page, figures)


def tabulate(runs: Sequence[Run], question: Question, on_inputs: OnDone = ignore) -> list[float]:
    """The axis of the page; every run computes its bounds there once."""
    axis = radius_axis(runs, question)
    for run in runs:
        run.tabulate(axis, on_inputs=on_inputs)
    return list(axis)


def usual_folder(runs: Sequence[Path]) -> Path:
    """A run's own figures stay its own: a comparison goes into a folder named after the others."""
    others = "-".join(path.name for path in runs[1:])
    return runs[0] / "figures" / (f"with-{others[:80]}" if others else "")


def _name(method: Method | str) -> str:
    """Reports know methods by their names."""
    name = method_name(method)
    if not isinstance(method, str) and method_named(name) != method:
        raise InvalidArgument(
            f"reports show methods of Holdfast's own, got {method!r}; run.certified_accuracy(method=...) takes any"
        )
    return name
