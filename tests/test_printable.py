"""Names of others reach terminals, pages and figures as they are, and do nothing there."""

import json
import re
from pathlib import Path

import pytest
from rich.table import Table

from holdfast.cli.app import run as holdfast
from holdfast.cli.console import Terminal, note, say
from holdfast.printable import printable
from holdfast.report.accuracy import Question
from holdfast.report.axis import radius_axis
from holdfast.report.figures import write_figures
from holdfast.report.page import page
from made_runs import made_run, unsealed

ESCAPE, TURNED, BELL = "\x1b]0;owned\x07\x1b[2J", "\u202egnp.exe", "\x07\x9b31m\r"
HOSTILE = f"{ESCAPE}[bold red]x[/bold red]:skull:{TURNED}{BELL}"


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("T-shirt/top", "naïve 猫 🐱", r"a\b", "$x$", ""):
        assert printable(text) == text


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x07", "\t", "\n", "\r", "\x1b", "\x7f", "\x9b", "\u200b", "\u2028", "\u202e", "\udcff", "\U000e0001"],
)
def test_what_is_obeyed_elsewhere_is_shown(character: str) -> None:
    shown = printable(f"a{character}b")
    assert shown.isprintable()
    assert re.fullmatch(r"a\\\w+b", shown)


def obeyed(text: str) -> str:
    """What a terminal or a browser would obey in a text of several lines."""
    return "".join(each for each in text if not (each.isprintable() or each == "\n"))


def test_a_terminal_obeys_no_name_in_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = unsealed(made_run(tmp_path / "run[bold]", 3).path, data=f"{HOSTILE}\nall is well")
    assert holdfast(["report", str(run)]) == 0
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err)
    assert r"\x1b]0;owned\x07" in said.out
    unwrapped = "".join(said.out.split())
    assert "[boldred]x[/boldred]:skull:" in unwrapped
    assert "run[bold]:3inputs" in unwrapped
    assert r"\r\nalliswell" in unwrapped


@pytest.mark.parametrize("command", ["report", "verify", "triage", "compact", "export", "certify"])
def test_a_terminal_obeys_no_name_in_an_error(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        [command, "--model", HOSTILE, "--data", HOSTILE, "--sigma", "0.25"]
        if command == "certify"
        else [command, HOSTILE]
    )
    needed = {"export": ["--measure", "label"], "triage": ["--radius", "0.25"]}.get(command, [])
    out = ["--out", str(tmp_path / "out")] if command in ("compact", "export", "certify") else []
    assert holdfast([*given, *needed, *out]) not in (0, 1)
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err)


def test_a_line_and_a_cell_of_a_table_are_neither_markup_nor_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    say(HOSTILE, style="bold")
    note(HOSTILE)
    Terminal(width=200).print(table)
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err)
    assert (said.out + said.err).count("[bold red]x[/bold red]:skull:") == 4


def test_a_page_obeys_no_name_in_a_run(tmp_path: Path) -> None:
    made = made_run(tmp_path / f"run{TURNED}", 3, names=(HOSTILE, "</script><img>", "b"), data=HOSTILE)
    text = page([made], Question(), radius_axis([made], Question()))
    assert not obeyed(text)
    (document,) = re.findall(r'<script type="application/json" id="[a-z]+">(.*?)</script>', text, re.DOTALL)
    facts = json.loads(document)
    assert facts["runs"][0]["classes"][1] == "</script><img>"
    assert all(printable(name) == name for name in facts["runs"][0]["classes"])
    assert facts["runs"][0]["name"].isprintable()


def test_figures_draw_names_as_they_are(tmp_path: Path) -> None:
    made = made_run(tmp_path / HOSTILE.replace("/", "-"), 3, data=rf"$\frac{{1$ {TURNED}")
    written = write_figures([made], Question(), tmp_path / "figures")
    drawn = "".join(path.read_text() for path in written if path.suffix == ".svg")
    assert not obeyed(drawn)
    assert r"\u202e" in drawn
    assert "frac" in drawn
