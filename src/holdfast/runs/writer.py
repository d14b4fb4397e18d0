"""Writing a run: alone in its folder, in parts, so that little is lost whenever it ends."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from holdfast.runs.folder import RunFolder
from holdfast.runs.resume import COMPLETE, INTERRUPTED
from holdfast.runs.store import write_table

_SECONDS = 10.0
_BYTES = 2**26


class RunWriter:
    """Collects finished entries and writes them every ten seconds, or before they fill 64 MB."""

    def __init__(self, folder: RunFolder, *, parts: int = 0) -> None:
        self.folder = folder
        self._parts = parts
        self._waiting: list[pa.Table] = []
        self._written = -math.inf  # the first entries come with the folder: a run on disk is never empty for long

    def add(self, entries: pa.Table) -> None:
        """Take finished entries in their compact form."""
        self._waiting.append(entries)
        if time.monotonic() - self._written > _SECONDS or sum(each.nbytes for each in self._waiting) > _BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting as the next part."""
        if self._waiting:
            write_table(self.folder, self._parts, pa.concat_tables(self._waiting).combine_chunks())
            self._waiting, self._parts = [], self._parts + 1
        self._written = time.monotonic()

    def status(self, status: str) -> None:
        """Record how far the run is."""
        self.folder.write_config({**self.folder.config(), "status": status})


@contextmanager
def writing(folder: RunFolder, *, parts: int = 0) -> Iterator[RunWriter]:
    """A writer that keeps what was finished, whatever happens; the run is complete when the block ends."""
    writer = RunWriter(folder, parts=parts)
    try:
        yield writer
        status = COMPLETE
    except BaseException:
        status = INTERRUPTED
        raise
    finally:
        writer.flush()
        writer.status(status)
