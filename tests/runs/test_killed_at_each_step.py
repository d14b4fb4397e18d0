"""A command that is killed before any of the changes that it makes on the disk: the same command again gives the undisturbed result."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.errors import NoThreshold
from holdfast.files import unfinished
from killed import exit_code
from made_runs import made_run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each command is a fork of this process")
TRIAGE = ("--radius", "0.05", "--epsilon", "0.5", "--delta", "0.4")
COMMANDS: dict[str, Callable[[Path, Path], list[object]]] = {
    "compact": lambda made, out: ["compact", made / "run", "--out", out],
    "import": lambda made, out: ["import", made / "log_score_noise_0.25.tsv", "--out", out],
    "export": lambda made, out: ["export", made / "run", "--measure", "score", "--out", out],
    "triage": lambda made, out: ["triage", made / "run", *TRIAGE, "--out", out],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    made_run(folder / "run", 6, in_a_part=3)
    log = folder / "log_score_noise_0.25.tsv"
    assert holdfast(["export", str(folder / "run"), "--measure", "score", "--out", str(log)]) == 0
    return folder


def outcome(out: Path) -> object:
    """What was made, without the time at which it was."""
    if out.is_file():
        return out.read_bytes()
    assert hf.Run.verify(hf.Run.open(out)).ok
    return sorted((path.name, path.read_bytes()) for path in out.rglob("*.parquet"))


def others(folder: Path, out: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path != out and not path.match(unfinished()))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_again_gives_the_undisturbed_result(name: str, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "work" / "out"
    arguments = COMMANDS[name](made, out)
    out.parent.mkdir()
    done = NoThreshold.exit_code if name == "triage" else 0  # so few inputs accept nothing: that is written, too
    assert exit_code(arguments, tmp_path) == done
    expected, at, code = outcome(out), 0, -9
    while code == -9:
        shutil.rmtree(out.parent)
        out.parent.mkdir()
        code = exit_code(arguments, out.parent, at=at)
        assert code == done or not out.exists() or outcome(out) == expected
        if code == -9:
            assert exit_code(arguments, out.parent) == done
        assert outcome(out) == expected
        assert not list(others(out.parent, out))
        at += 1
    assert code == done
    assert at > 3
