"""A run's folder on disk: created once, written through temporary files, never damaged."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import RunError

FORMAT = 1
_CONFIG = "run.json"


@dataclass(frozen=True)
class RunFolder:
    """``runs/NAME/``: ``run.json`` says what was run, ``certificates/*.parquet`` hold what came of it."""

    path: Path

    @staticmethod
    def refuse(path: Path, *, bytes_needed: int) -> None:
        """Refuse a folder that exists, and a disk that is too full, before any work is done for it."""
        if path.exists():
            raise RunError(f"{path} exists already and is left as it is; choose another --out, or move it away first")
        parent = next(folder for folder in path.absolute().parents if folder.exists())
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

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> "RunFolder":
        """A new folder with its configuration."""
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise RunError(f"{path} exists already and is left as it is; choose another --out") from error
        except OSError as error:
            raise _explained(path, error) from error
        folder = cls(path)
        folder.write_config({"format": FORMAT, **config})
        return folder

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
        temporary = target.with_name(target.name + ".partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            writer(temporary)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise _explained(target, error) from error
        return target


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
            f"no space left to write {path}; what was written before is complete. Free some space and certify the rest into another folder"
        )
    return RunError(f"could not write {path}: {os.strerror(error.errno) if error.errno else error}")
