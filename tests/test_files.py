"""Files are written whole or not at all, and links of others lead nowhere."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.files import sweep, write_file

posix = pytest.mark.skipif(os.name != "posix", reason="links and modes are POSIX's")


@posix
def test_a_link_at_the_target_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "target"
    victim.write_text("mine")
    target.symlink_to(victim)
    write_file(target, lambda path: path.write_text("new"))
    assert victim.read_text() == "mine"
    assert not target.is_symlink()
    assert target.read_text() == "new"


@posix
def test_a_temporary_file_that_is_there_already_is_not_written_to_even_if_its_name_was_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("holdfast.files.secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".target-guessed.partial").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "target", lambda path: path.write_text("new"))
    assert victim.read_text() == "mine"
    assert not (tmp_path / "target").exists()


def test_an_interruption_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    def interrupted(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    target = tmp_path / "target"
    target.write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write_file(target, interrupted)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@posix
def test_the_file_is_on_the_disk_before_its_name_is_and_the_name_before_the_call_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def moved(path: Path, target: Path) -> Path:
        done.append("move")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved)
    write_file(tmp_path / "new" / "deep" / "target", lambda path: path.write_text("content"))
    # Two folders were made, each of whose names is in the one above it.
    assert done == ["folder", "folder", "file", "move", "folder"]


@posix
def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    write_file(tmp_path / "ours", lambda path: path.write_text("content"))
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_sweeping_removes_what_was_left_of_that_file_and_nothing_else(tmp_path: Path) -> None:
    names = ("a[1].txt", "a1.txt", "x" * 250)
    for name in names:

        def killed(temporary: Path) -> None:
            temporary.rename(temporary.with_suffix(".kept"))  # as if the process ended here
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_file(tmp_path / name, killed)
    for kept in tmp_path.iterdir():
        kept.rename(kept.with_suffix(".partial"))
    (tmp_path / ".a[1].txt-mine.partial").touch()

    def left() -> list[str]:
        return sorted(path.name.partition("-")[0][:10] for path in tmp_path.iterdir())

    assert left() == [".a1.txt", ".a[1].txt", ".a[1].txt", ".xxxxxxxxx"]
    sweep(tmp_path / "a[1].txt")
    assert left() == [".a1.txt", ".a[1].txt", ".xxxxxxxxx"]
    sweep(tmp_path / ("x" * 250))
    assert left() == [".a1.txt", ".a[1].txt"]
    assert (tmp_path / ".a[1].txt-mine.partial").exists()
