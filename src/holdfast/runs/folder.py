"""A run's folder on disk: written through temporary files, never damaged."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import RunError
from holdfast.runs.lock import LOCK

FORMAT = 1
_CONFIG = "run.json"
_UNFINISHED = ".partial"
_LONGEST_STEM = 100


@dataclass(frozen=True)
class RunFolder:
    """``runs/NAME/``: ``run.json`` says what was run, ``certificates/*.parquet`` hold what came of it."""

    path: Path

    @staticmethod
    def refuse(path: Path) -> None:
        """Refuse a path that holds something already, before any work is done."""
        if path.exists() and not _is_bare(path):
            raise RunError(f"{path} exists already and is left as it is; choose another --out, or move it away first")

    @staticmethod
    def check_room(path: Path, *, bytes_needed: int) -> None:
        """Refuse a path that cannot be written to, and a disk that is too full."""
        parent = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        if not (parent.is_dir() and os.access(parent, os.W_OK)):
            raise RunError(
                f"{path} cannot be created: {parent} is not a folder that can be written to; choose another --out"
            )
        free = shutil.disk_usage(parent).free
        if free < bytes_needed:
            raise RunError(
                f"the disk under {parent} has {free / 1e6:,.1f} MB free, and this run needs about "
                f"{bytes_needed / 1e6:,.1f} MB; free some space or choose another --out"
            )

    @staticmethod
    def holds_run(path: Path) -> bool:
        """Whether there is a run at this path, finished or not."""
        return (path / _CONFIG).is_file()

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> "RunFolder":
        """A new folder with its configuration."""
        cls.make(path)
        if not _is_bare(path):
            raise RunError(f"{path} exists already and is left as it is; choose another --out")
        folder = cls(path)
        folder.write_config({"format": FORMAT, **config})
        return folder

    @staticmethod
    def make(path: Path) -> None:
        """A folder to lock; it may exist."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise RunError(f"{path} exists already and is left as it is; choose another --out") from error
        except OSError as error:
            raise _explained(path, error) from error

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run's folder."""
        folder = cls(path)
        if not (path / _CONFIG).is_file():
            what = "is not a run" if path.exists() else "does not exist"
            raise RunError(
                f"{path} {what}: expected a folder with {_CONFIG}, as 'holdfast certify' or 'holdfast import' write it"
            )
        found = folder.config().get("format")
        if found != FORMAT:
            raise RunError(
                f"{path} is a run of format {found!r}, this Holdfast reads format {FORMAT}; use the version that wrote it"
            )
        return folder

    def config(self) -> dict[str, Any]:
        """What was run."""
        try:
            config = json.loads((self.path / _CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / _CONFIG} cannot be read ({error}); restore it from a copy") from error
        if not isinstance(config, dict):
            raise RunError(f"{self.path / _CONFIG} must hold a JSON object, got {type(config).__name__}")
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration in one step."""
        text = json.dumps(config, indent=2) + "\n"
        self.write(_CONFIG, lambda target: target.write_text(text, encoding="utf-8"), replace=True)

    def write(self, name: str, writer: Callable[[Path], object], *, replace: bool = False) -> Path:
        """Write a file beside its place, then move it there; a failure leaves what was there."""
        target = self.path / name
        if target.exists() and not replace:
            raise RunError(f"{target} exists already and is left as it is")
        temporary = target.with_name(target.name + _UNFINISHED)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            writer(temporary)
            _flush_to_disk(temporary)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise _explained(target, error) from error
        return target

    def sweep(self) -> None:
        """Remove half-written files of a killed process. Requires the folder's lock."""
        for leftover in self.path.rglob(f"*{_UNFINISHED}"):
            leftover.unlink(missing_ok=True)


def _is_bare(path: Path) -> bool:
    """An empty folder, or one in which a process was killed before it had written anything whole."""
    return path.is_dir() and all(
        each.is_file() and (each.name == LOCK or each.name.endswith(_UNFINISHED)) for each in path.iterdir()
    )


def _flush_to_disk(path: Path) -> None:
    """Without it, a power cut after the move could leave an empty file in its place."""
    with path.open("r+b") as file:  # Windows flushes only what it may write
        os.fsync(file.fileno())


def file_stem(name: str) -> str:
    """A name for a file, cut where a file system would refuse it; different names stay different."""
    if len(name) <= _LONGEST_STEM:
        return name
    return f"{name[:_LONGEST_STEM]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def free_name(parent: Path, name: str) -> Path:
    """``parent/name``, or ``parent/name-2``, ``-3``, ... if that is taken."""
    number = 1
    path = parent / name
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _explained(path: Path, error: OSError) -> RunError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(
            f"no space left to write {path}; what was written before is complete. Free some space and run the same command "
            f"again: 'holdfast certify' goes on from there"
        )
    return RunError(f"could not write {path}: {os.strerror(error.errno) if error.errno else error}")
