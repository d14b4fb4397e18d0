"""Writes a run in parts, so that little is lost when it is interrupted."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.certificates.spot_check import SpotCheck
from holdfast.runs.config_checks import check_config
from holdfast.runs.folder import COMPLETE, INTERRUPTED, RUNNING, RunFolder, Sign, now
from holdfast.runs.manifest import SPOT_CHECK
from holdfast.runs.resume import check_answers, check_same
from holdfast.runs.store import next_part, read_columns, write_table

_SECONDS = 10.0
_BYTES = 2**23


class RunWriter:
    """Collects finished entries and writes them: at first soon, then every ten seconds, or before they fill 8 MB.

    An unfinished run of the same question is continued; a new folder is made with the first entries. The folder is locked
    while it is written to. What is finished is kept, whatever happens; the run is complete when the ``with`` block ends.
    Then, and when it is interrupted, it is sealed with a manifest.

    Parameters:
        network: compares the network with a spot check; says how it answers otherwise, or nothing.
        spot_check: makes that of a new run.
        sign: signs the manifest.

    Attributes:
        seed: the one recorded, where a run is continued.
        finished: the indices of entries that are there already.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        network: Callable[[SpotCheck], str],
        spot_check: Callable[[], SpotCheck],
        seed: int | None = None,
        sign: Sign | None = None,
    ) -> None:
        self.finished: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.seed = int(config["provenance"]["seed"], 16)
        self._folder, self._config, self._asked_seed = RunFolder(path), config, seed
        self._network, self._spot_check, self._sign = network, spot_check, sign
        self._lock: ExitStack | None = None
        self._parts = 0
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._pause = 1.0
        self._written = -math.inf  # the first entries come with the folder: a run on disk is never empty for long

    def __enter__(self) -> Self:
        folder = self._folder
        if not RunFolder.holds_run(folder.path):
            RunFolder.refuse(folder.path)
            return self
        self._check()  # before the lock: what is refused is not touched at all
        with ExitStack() as lock:
            lock.enter_context(folder.locked())
            self._check()
            folder.sweep()
            recorded = folder.config()
            self.seed = int(recorded["provenance"]["seed"], 16)
            self.finished, self._parts = read_columns(folder, ["index"])["index"], next_part(folder)
            recorded.pop("sealed", None)
            folder.write_config({**recorded, "status": RUNNING, "resumed": [*recorded.get("resumed", []), now()]})
            self._write_spot_check()
            self._lock = lock.pop_all()
        return self

    def _check(self) -> None:
        """Refuse a run of another question or another network, and one that is not as it was written."""
        check_config(self._folder)
        check_same(self._folder, self._config, self._asked_seed)
        self._folder.check_unchanged()
        check_answers(self._folder, self._network)

    def _write_spot_check(self) -> None:
        if not (self._folder.path / SPOT_CHECK).exists():
            self._folder.write(SPOT_CHECK, self._spot_check().write)

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
            self._begin()
            write_table(self._folder, self._parts, pa.concat_tables(self._waiting).combine_chunks())
            self._waiting, self._bytes, self._parts = [], 0, self._parts + 1
        self._written = time.monotonic()

    def _begin(self) -> None:
        """Lock and create a new folder, unless that is done; an interruption at it is made up for at the next call."""
        path = self._folder.path
        if self._lock is None:
            with ExitStack() as lock:
                lock.enter_context(self._folder.locked())
                RunFolder.refuse(path)  # somebody may have been faster
                self._folder.sweep()
                self._lock = lock.pop_all()
        if not RunFolder.holds_run(path):
            RunFolder.create(path, self._config)
        self._write_spot_check()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.flush()
            if self._lock is not None:
                status = COMPLETE if kind is None else INTERRUPTED
                self._folder.seal({**self._folder.config(), "status": status}, sign=self._sign)
        finally:
            if self._lock is not None:
                self._lock.close()
