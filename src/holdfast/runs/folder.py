"""A run's folder on disk: written through temporary files, one process at a time, never damaged."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import Timeout

from holdfast.budgets import read_text
from holdfast.certificates.evidence import stored_measures
from holdfast.errors import RunError, reading
from holdfast.files import acquire, is_full, new_folder, unfinished, why_unwritable, write_file
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, noise_fields, stored_noise
from holdfast.runs.manifest import CONFIG, EVIDENCE, EXPORTS, MANIFEST, Manifest

FORMAT = 1
COMPLETE, RUNNING, INTERRUPTED = "complete", "running", "interrupted"
SIGNATURE = "manifest.sig"
Sign = Callable[[bytes], bytes]
"""From a manifest to its signature."""
_LOCK = ".lock"
_OLD = ".partial"
"""Ended what earlier versions had not finished, after the file's own name."""
_LONGEST_STEM = 100
_REMEDY = "restore it from a copy"


@dataclass(frozen=True)
class RunFolder:
    """``runs/NAME/``: ``run.json`` says what was run, ``certificates/*.parquet`` hold what came of it.

    A run with a link in it is refused, whoever opens it and for whatever: what is in a run leads to nothing outside. The run's
    folder itself may be reached through links.
    """

    path: Path

    def __post_init__(self) -> None:
        if any(os.path.lexists(self.path / name) for name in (CONFIG, MANIFEST)):
            try:
                _check_plain(self.path)
            except OSError as error:
                raise RunError(f"{self.path} cannot be read ({error}); restore it from a copy") from error

    @staticmethod
    def refuse(path: Path) -> None:
        """Refuse a path that holds something already, before any work is done."""
        if path.exists() and not _is_bare(path):
            raise RunError(f"{path} exists already and is left as it is; choose another place, or move it away first")

    @staticmethod
    def check_place(path: Path) -> None:
        """Refuse a path at which no new run can be written, before any work is done; a run that is there is left to others."""
        if RunFolder.holds_run(path):
            return
        RunFolder.refuse(path)
        fault = why_unwritable(path)
        if fault:
            raise RunError(f"{path} cannot be created: {fault}; choose another place")

    @staticmethod
    def check_room(path: Path, *, bytes_needed: int) -> None:
        """Refuse a disk that is too full."""
        parent = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
        free = shutil.disk_usage(parent).free
        if free < bytes_needed:
            raise RunError(
                f"the disk under {parent} has {free / 1e6:,.1f} MB free, and this run needs about "
                f"{bytes_needed / 1e6:,.1f} MB; free some space or choose another place"
            )

    @staticmethod
    def holds_run(path: Path) -> bool:
        """Whether there is a run at this path, finished or not."""
        return (path / CONFIG).is_file()

    @classmethod
    @contextmanager
    def whole(cls, path: Path) -> Iterator["RunFolder"]:
        """A new folder for what is written at once: it is at its place when all is written, and not before."""
        try:
            with new_folder(path) as folder:
                yield cls(folder)
        except OSError as error:
            raise _explained(path, error) from error

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> "RunFolder":
        """A new folder with its configuration."""
        cls.refuse(path)
        folder = cls(path)
        folder.write_config({"format": FORMAT, **config})
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run's folder."""
        if not cls.holds_run(path):
            what = "is not a run" if path.exists() else "does not exist"
            raise RunError(
                f"{path} {what}: expected a folder with {CONFIG}, as 'holdfast certify' or 'holdfast import' write it"
            )
        folder = cls(path)
        found = folder.config().get("format")
        if found != FORMAT:
            raise RunError(
                f"{path} is a run of format {found!r}, this Holdfast reads format {FORMAT}; use the version that wrote it"
            )
        folder.check_unchanged()
        return folder

    def config(self) -> dict[str, Any]:
        """What was run."""
        return self._parsed(self._config_bytes())

    def _config_bytes(self) -> bytes:
        with reading(self.path / CONFIG, RunError, "cannot be read", remedy=_REMEDY):
            return read_text(self.path / CONFIG, RunError)

    def _parsed(self, text: bytes) -> dict[str, Any]:
        with reading(self.path / CONFIG, RunError, "cannot be read", remedy=_REMEDY):
            config = json.loads(text.decode("utf-8"))
        if not isinstance(config, dict):
            raise RunError(f"{self.path / CONFIG} must hold a JSON object, got {type(config).__name__}")
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration in one step."""
        self._write_bytes(CONFIG, _as_bytes(config))

    def seal(self, config: Mapping[str, Any], *, sign: Sign | None = None) -> None:
        """Write the manifest of all that is here, and then the configuration, which is in it already.

        A process that is killed in between leaves a run that is still ``running``, as it was: only the last step seals it.
        """
        text = _as_bytes({**config, "sealed": True})
        manifest = Manifest.of(self.path, config=text).text()
        (self.path / SIGNATURE).unlink(missing_ok=True)
        self._write_bytes(MANIFEST, manifest)
        if sign is not None:
            self.sign(sign)
        self._write_bytes(CONFIG, text)

    def sign(self, sign: Sign) -> None:
        """Write a signature of the manifest."""
        signature = self.signature(sign)
        if not (self.path / SIGNATURE).exists():
            self._write_bytes(SIGNATURE, signature)

    def signature(self, sign: Sign) -> bytes:
        """The signature that would be written; refused beside one of another key, which is left as it is."""
        if not (self.path / MANIFEST).exists():
            raise RunError(
                f"{self.path} has no manifest to sign: it was written by an older Holdfast; 'holdfast compact' writes a copy with one"
            )
        found, there = sign((self.path / MANIFEST).read_bytes()), self.path / SIGNATURE
        if there.exists() and there.read_bytes() != found:
            raise RunError(
                f"{self.path} has a signature already that is not by this key, and it is left as it is; to sign with this key instead, "
                f"move {there} away first"
            )
        return found

    def changes(self) -> list[str]:
        """What is not as the manifest says, in words. A run that was never sealed, as 0.1.0 wrote them, has none."""
        text = self._config_bytes()
        config, manifest = self._parsed(text), Manifest.read(self.path)
        # Whoever goes on with a run takes "sealed" out first: an edited status does not make it one that is being written.
        finished = config.get("status", COMPLETE) != RUNNING or "sealed" in config
        if manifest is None:
            return [f"{MANIFEST} is missing"] if finished and "sealed" in config else []
        found = manifest.differences(self.path, config=text, finished=finished)
        # Whoever goes on with an interrupted run says so in its configuration first: then it is read as unfinished.
        return self.changes() if found and self._config_bytes() != text else found

    def check_unchanged(self) -> None:
        """Refuse a run that is not as its manifest says."""
        found = self.changes()
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise RunError(
                f"{self.path} is not as it was written: {found[0]}{more}; restore it from a copy. 'holdfast verify' lists all that "
                f"is wrong with it"
            )

    def _write_bytes(self, name: str, content: bytes) -> None:
        self.write(name, lambda target: target.write_bytes(content), replace=True)

    def write(self, name: str, writer: Callable[[Path], object], *, replace: bool = False) -> Path:
        """Write one of the run's files in one step; a failure leaves what was there."""
        return write_output(self.path / name, writer, replace=replace)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for writing; refused at once if it is locked already, by this process or another."""
        try:
            lock = acquire(self.path / _LOCK)
        except Timeout as error:
            raise RunError(
                f"another process is writing into {self.path} right now; wait until it ends, or choose another place"
            ) from error
        except OSError as error:
            raise _explained(self.path / _LOCK, error) from error
        try:
            yield
        finally:
            lock.release()

    def sweep(self) -> None:
        """Remove half-written files of a killed process, and nothing else. Requires the folder's lock."""
        kinds = (CONFIG, MANIFEST, SIGNATURE, *EVIDENCE, EXPORTS)
        folders = {str(Path(kind).parent) for kind in kinds}
        for pattern in (*(kind + _OLD for kind in kinds), *(f"{folder}/{unfinished()}" for folder in folders)):
            for leftover in self.path.glob(pattern):
                leftover.unlink(missing_ok=True)


def write_output(target: Path, writer: Callable[[Path], object], *, replace: bool = False) -> Path:
    """Write a file in one step; a failure leaves what was there, and is explained."""
    if os.path.lexists(target) and not replace:
        raise RunError(f"{target} exists already and is left as it is")
    try:
        write_file(target, writer)
    except OSError as error:
        raise _explained(target, error) from error
    return target


def record(noise: Noise, measures: Sequence[MeasureInfo]) -> dict[str, Any]:
    """How ``run.json`` records noise and measures."""
    return {**noise_fields(noise), "measures": [info.to_dict() for info in measures]}


def recorded_noise(config: Mapping[str, Any]) -> Noise | None:
    """The noise of a run; None where a log does not say. What 0.1.0 wrote has a sigma only."""
    known = {name: config[name] for name in ("noise", "sigma") if config.get(name) is not None}
    with reading(CONFIG, RunError, "does not describe a noise", remedy=_REMEDY):
        return stored_noise(known) if known else None


def recorded_measures(config: Mapping[str, Any]) -> tuple[MeasureInfo, ...]:
    """The measures of a run, in the order in which they were counted; the default ones where it does not say."""
    with reading(CONFIG, RunError, "does not describe measures", remedy=_REMEDY):
        return stored_measures(config.get("measures"))


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


def now() -> str:
    """The time, as ``run.json`` records it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _as_bytes(config: Mapping[str, Any]) -> bytes:
    return (json.dumps(config, indent=2) + "\n").encode()


def _is_bare(path: Path) -> bool:
    """An empty folder, or one in which a process was killed before it had written anything whole."""
    return path.is_dir() and all(
        each.is_file() and (each.name in (_LOCK, CONFIG + _OLD) or each.match(unfinished())) for each in path.iterdir()
    )


def _check_plain(path: Path) -> None:
    """Refuse links, devices and pipes anywhere in a run."""
    folders = [path]
    while folders:
        for entry in folders.pop().iterdir():
            mode = entry.lstat().st_mode
            if stat.S_ISDIR(mode):
                folders.append(entry)
            elif not stat.S_ISREG(mode):
                what = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise RunError(
                    f"{entry} is {what}, and nothing in a run may be: it could lead anywhere; remove it, or put a copy of the "
                    f"file in its place"
                )


def _explained(path: Path, error: OSError) -> RunError:
    if is_full(error):
        return RunError(
            f"no space left to write {path}; what was written before is complete. Free some space and run the same command "
            f"again: 'holdfast certify' goes on from there"
        )
    said = os.strerror(error.errno) if error.errno else error
    return RunError(f"could not write {path}: {said}; choose another place")
