"""Every file that Holdfast writes is written here: whole or not at all, and never through a link."""

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from shutil import rmtree

from filelock import FileLock

_TOKEN = "[0-9a-f]" * 16
_LONGEST = 100


def unfinished(target: str = "*") -> str:
    """The pattern of what a killed process may leave beside a file that it was writing; by default, beside any."""
    return f".{escape(target[:_LONGEST]) if target != '*' else target}-{_TOKEN}.partial"


def write_file(target: Path, writer: Callable[[Path], object]) -> None:
    """Let ``writer`` fill a new file beside the target, then move it there; a failure leaves what was there.

    **Guarantee**: no file but the target is changed, whatever lies in the folder. The new file's name is random and is opened
    exclusively, so it is no link; moving it replaces a link at the target, and not what that points to. After a power cut
    the target is there as a whole, or as it was before.
    """
    make_folder(target.parent)
    temporary = _temporary(target)
    temporary.open("xb").close()
    try:
        writer(temporary)
        with temporary.open("r+b") as file:  # Windows flushes only what it may write
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(target.parent)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which is moved to the target as a whole; a failure leaves nothing.

    **Requires** that nothing is at the target, or an empty folder. A killed process leaves a hidden folder beside it, named as
    :func:`unfinished` says.
    """
    target = target.resolve()
    make_folder(target.parent)
    temporary = _temporary(target)
    temporary.mkdir()
    try:
        yield temporary
        sync_folder(temporary)
        if os.name != "posix" and target.exists():  # elsewhere a folder is not moved to an empty one
            target.rmdir()
        temporary.rename(target)
    except BaseException:
        rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(target.parent)


def why_unwritable(target: Path) -> str:
    """Why nothing can be written at a path, in words that go on after a colon; nothing if it can.

    A file is made there for a moment: permissions alone do not tell of a read-only disk, or of what is no disk at all.
    """
    path = target.absolute()
    above = path if path.is_dir() else next(folder for folder in path.parents if folder.exists())
    if not above.is_dir():
        return f"{above} is not a folder"
    if above == Path(path.anchor) and above not in (path, path.parent):
        return f"{path.parent} does not exist, and would have to be made in {above}"
    probe = _temporary(above / path.name)
    try:
        probe.open("xb").close()
        probe.unlink()
    except OSError as error:
        return f"{above} cannot be written to ({os.strerror(error.errno) if error.errno else error})"
    return ""


def is_full(error: OSError) -> bool:
    """Whether a file could not be written because the disk, or what one may use of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name[:_LONGEST]}-{secrets.token_hex(8)}.partial")


def sweep(target: Path) -> None:
    """Remove what a killed process left of this file. Requires that nobody writes it now."""
    for leftover in target.parent.glob(unfinished(target.name)):
        leftover.unlink(missing_ok=True)


def acquire(path: Path) -> FileLock:
    """Lock a file, which says that something beside it is being written; ``Timeout`` if it is locked already.

    The operating system holds the lock, not the file, and releases it when the process ends, however it ends.
    """
    # A new lock object each time: one that is shared would let its holder in twice. A lock that is only a file would
    # outlive its process, so a file system without real locks is refused.
    lock = FileLock(path, blocking=False, thread_local=False, fallback_to_soft=False)
    make_folder(path.parent)
    lock.acquire()
    return lock


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they survive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk: a file that was moved is there only then."""
    if os.name != "posix":  # nothing else opens folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot, and need not
            raise
    finally:
        os.close(descriptor)
