"""What a person reads before the first run: help, examples, numbers as people type them."""

import pydoc
import re
import shlex

import pytest
import typer

import holdfast as hf
from holdfast.cli.app import COMMANDS, app, run
from holdfast.cli.examples import EXAMPLES


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_nothing_in_a_help_is_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in ([], *([name] for name in COMMANDS)):
        assert not re.search(
            r"\w(\.\.\.|…)", helped(capsys, *arguments).replace("{runs}...", "").replace("runs...", "")
        )
    whole = " ".join(helped(capsys).split())
    assert "Examples: holdfast demo" in whole
    for command in COMMANDS.values():
        assert " ".join((command.__doc__ or "").split("\n\n")[0].split()) in whole


def test_the_help_of_certify_run_fits_a_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(hf.certify_run))
    assert sum(max(1, -(-len(line) // 80)) for line in text.splitlines()) <= 24


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_that_the_command_takes(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = helped(capsys, name)
    assert EXAMPLES[name]
    for example in EXAMPLES[name]:
        assert f"\n    {example}\n" in text
        program, command, *arguments = shlex.split(example)
        assert (program, command) == ("holdfast", name)
        typer.main.get_command(app).commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


def test_counts_are_typed_as_people_write_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    command = typer.main.get_command(app).commands["certify"]  # type: ignore[attr-defined]
    needed = ["--model", "a", "--data", "b", "--out", "c"]
    for text, number in (("1e4", 10_000), ("10_000", 10_000), ("2.5e3", 2_500), ("7", 7), ("-1", -1)):
        assert command.make_context("certify", [*needed, "--n", text, "--max", text]).params["n"] == number
    for text in ("1e15", "1e999999999", "10,000", "1.5", "1e-1", "many", "nan", "inf", ""):
        assert run(["certify", *needed, "--n", text]) == 2
        said = f"expected a whole number of at most 15 digits, such as 10000, 10_000 or 1e4, got '{text}'"
        assert said in " ".join(capsys.readouterr().err.split())
