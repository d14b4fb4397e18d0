"""The report as one HTML file: numbers, drawing and style in it, nothing fetched from anywhere."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from holdfast.errors import RunError
from holdfast.report.accuracy import Question
from holdfast.report.payload import Columns, payload
from holdfast.report.thumbnails import Sheets
from holdfast.runs.folder import write_output
from holdfast.runs.run import Run

# In the order they are put together; each may use what stands above it.
_SCRIPTS = (
    "rounding.js",
    "columns.js",
    "elements.js",
    "runs.js",
    "accuracy.js",
    "csv.js",
    "chart.js",
    "overview.js",
    "scatter.js",
    "table.js",
    "audit.js",
    "entry.js",
    "main.js",
)


_BRAND = b'<p class="brand">Holdfast report</p>'
_START = 2**17


def check_replaceable(path: Path) -> None:
    """Refuse to write a report over anything but an older report."""
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            known = _BRAND in file.read(_START)
    except OSError as error:
        raise RunError(f"{path} cannot be replaced ({error.strerror}); choose another place") from error
    if not known:
        raise RunError(f"{path} exists already and is not a report written by Holdfast; choose another place")


def write_page(
    runs: Sequence[Run],
    question: Question,
    radii: Sequence[float],
    path: Path,
    *,
    pictures: Mapping[int, Sheets] | None = None,
) -> Path:
    """Write the report of some runs; ``radii`` is the axis they were tabulated on."""
    text = page(runs, question, radii, pictures=pictures)
    return write_output(path, lambda file: file.write_bytes(text.encode()), replace=True)


def page(
    runs: Sequence[Run],
    question: Question,
    radii: Sequence[float],
    *,
    pictures: Mapping[int, Sheets] | None = None,
) -> str:
    """The whole file. Its content security policy forbids other scripts and any fetching."""
    columns = Columns()
    document = payload(runs, question, radii, pictures or {}, columns)
    style = _asset("page.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();\n"
    names = ", ".join(run["name"] for run in document["runs"])
    return Template(_asset("page.html")).substitute(
        title=html.escape(f"{names}: certified confidence"),
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        style=style,
        script=script,
        document=script_json(document),
        columns=columns.text(),
    )


def script_json(document: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or begin another."""
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return files("holdfast.report").joinpath("assets", name).read_text(encoding="utf-8")
