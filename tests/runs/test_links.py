"""A run of strangers: what is in its folder leads to nothing outside, and what is theirs stays."""

import os
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.runs.compact import compact_run
from holdfast.runs.folder import RunFolder
from holdfast.runs.imported import import_log
from holdfast.runs.tsv import log_table, write_log
from made_runs import made_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes are POSIX's")
PLACES = (
    ".lock",
    "figures/report.html.partial",
    "figures/report.html",
    "exports/cohen.tsv",
    "certificates/part-00007.parquet",
    "spot_check.npz",
    "manifest.json",
    "manifest.sig",
    "audit.parquet",
    "run.json",
)
COMMANDS = (["report"], ["report", "--format", "html"], ["verify"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_run_with_a_link_in_it_is_refused_and_the_link_not_followed(
    place: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path / "run", 2)
    victim = tmp_path / "victim"
    link = run.path / place
    link.parent.mkdir(exist_ok=True)
    if link.exists():
        link.rename(victim)
    else:
        victim.write_text("mine")
    link.symlink_to(victim)
    before = victim.read_bytes()
    assert holdfast([command[0], str(run.path), *command[1:]]) == hf.RunError.exit_code
    said = " ".join(capsys.readouterr().err.split())
    assert f"{place} is a link, and nothing in a run may be" in said
    assert "remove it" in said
    assert victim.read_bytes() == before
    assert link.is_symlink()


def test_a_folder_in_a_run_is_no_link_either_and_pipes_are_not_waited_for(tmp_path: Path) -> None:
    run, elsewhere = made_run(tmp_path / "run", 2), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.path / "figures").symlink_to(elsewhere)
    with pytest.raises(hf.RunError, match="figures is a link"):
        hf.Run.open(run.path)
    (run.path / "figures").unlink()
    os.mkfifo(run.path / "certificates" / "part-00001.parquet")
    with pytest.raises(hf.RunError, match="neither a file nor a folder"):
        hf.Run.open(run.path)
    assert not list(elsewhere.iterdir())


def test_a_run_that_is_reached_through_a_link_is_read(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", 2)
    (tmp_path / "latest").symlink_to(run.path)
    assert len(hf.Run.open(tmp_path / "latest")) == 2


def test_sweeping_removes_what_a_killed_process_left_and_nothing_else(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", 2).folder
    token = "0123456789abcdef"
    left = ("run.json.partial", f".run.json-{token}.partial", f"certificates/.part-00001.parquet-{token}.partial")
    theirs = ("notes.partial", "certificates/notes.partial", f"mine/.x-{token}.partial", "mine/run.json.partial")
    (folder.path / "mine").mkdir()
    for name in (*left, *theirs):
        (folder.path / name).write_text("half")
    folder.sweep()
    assert not [name for name in left if (folder.path / name).exists()]
    assert [name for name in theirs if (folder.path / name).exists()] == list(theirs)


@pytest.mark.parametrize("made_by", ["compact", "import"])
def test_a_copy_or_an_import_that_was_interrupted_anywhere_is_no_run(
    made_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = made_run(tmp_path / "run", 2), tmp_path / "out"
    log = tmp_path / "label_sigma0.25.tsv"
    write_log(log, log_table([0, 1], [0, 1], [0, 1], [[0.5], [0.25]], [1.0, 1.0]))
    write, seen = RunFolder.write, []

    def watched(folder: RunFolder, name: str, *args: object, **options: object) -> Path:
        assert not RunFolder.holds_run(out), f"run.json was there before {name}"
        seen.append(name)
        return write(folder, name, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFolder, "write", watched)
    made = compact_run(source, out, bins=2) if made_by == "compact" else import_log(log, out)
    assert seen[-1] == "run.json"
    assert len(made) == 2
