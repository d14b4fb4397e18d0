"""A lock on a run's folder that the operating system releases when the process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from holdfast.errors import RunError

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for writing; refused at once if it is locked already, by this process or another.

    The operating system holds the lock, not the file, which may stay behind.
    """
    # A new lock object each time: one that is shared would let its holder in twice. A lock that is only a file would
    # outlive its process, so a file system without real locks is refused.
    lock = FileLock(folder / LOCK, blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise RunError(
            f"another process is writing into {folder} right now; wait until it ends, or choose another --out"
        ) from error
    except OSError as error:
        raise RunError(f"could not write {folder / LOCK}: {os.strerror(error.errno or 0)}") from error
    try:
        yield
    finally:
        lock.release()
