"""Writes a run in parts, so that little is lost when it is interrupted."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from holdfast.runs.folder import RunFolder
from holdfast.runs.resume import COMPLETE, INTERRUPTED, ResumeState
from holdfast.runs.store import write_table

_SECONDS = 10.0
_BYTES = 2**23


class RunWriter:
    """Collects finished entries and writes them: at first soon, then every ten seconds, or before they fill 8 MB.

    ``place`` gives the folder, and may be asked again if it was interrupted at making it.
    """

    def __init__(self, place: Callable[[], RunFolder], begun: ResumeState | None) -> None:
        self._place = place
        self._folder = begun.folder if begun else None
        self._parts = begun.parts if begun else 0
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._pause = 1.0
        self._written = -math.inf  # the first entries come with the folder: a run on disk is never empty for long

    def add(self, entries: pa.Table) -> None:
        """Take finished entries in their compact form."""
        self._waiting.append(entries)
        self._bytes += entries.nbytes
        if time.monotonic() - self._written > min(self._pause, _SECONDS) or self._bytes > _BYTES:
            self.flush()
            self._pause *= 2

    def flush(self) -> None:
        """Write what is waiting as the next part."""
        if self._waiting:
            write_table(self.folder, self._parts, pa.concat_tables(self._waiting).combine_chunks())
            self._waiting, self._bytes, self._parts = [], 0, self._parts + 1
        self._written = time.monotonic()

    @property
    def folder(self) -> RunFolder:
        """Where the parts go; made when it is first needed."""
        if self._folder is None:
            self._folder = self._place()
        return self._folder

    def end(self, status: str) -> None:
        """Write the rest, and record how the run ended, if there is anything of it."""
        self.flush()
        if self._folder is not None:
            self._folder.write_config({**self._folder.config(), "status": status})


@contextmanager
def writing(place: Callable[[], RunFolder], begun: ResumeState | None) -> Iterator[RunWriter]:
    """A writer that keeps finished certificates, whatever happens; the run is complete when the block ends."""
    writer = RunWriter(place, begun)
    try:
        yield writer
    except BaseException:
        writer.end(INTERRUPTED)
        raise
    writer.end(COMPLETE)
