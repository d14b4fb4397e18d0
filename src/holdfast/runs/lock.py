"""A lock on a run's folder that dies with its process, however the process dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import RunError

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile; refused at once if somebody does.

    The kernel holds the lock, not the file, which stays behind: removing it would let two processes lock two files of
    the same name.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunError(f"could not write {folder / LOCK}: {os.strerror(error.errno or 0)}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"another process is writing into {folder} right now; wait until it ends, or choose another --out"
            ) from error
        yield
    finally:
        os.close(handle)
