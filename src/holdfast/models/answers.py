"""Answers that were paid for, on disk: a row of numbers for each key, whatever process asks next."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ModelError

_AT_ONCE = 500


class AnswerStore:
    """A table of SQLite, written in one transaction for each batch: a process that is killed loses that of the present one."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, check_same_thread=False, timeout=60)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")  # a power cut may take the last few, and nothing else
            with self._base:
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, scores BLOB) WITHOUT ROWID"
                )
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    def __len__(self) -> int:
        (count,) = self._base.execute("SELECT count(*) FROM answers").fetchone()
        return int(count)

    def known(self, keys: Sequence[bytes]) -> dict[bytes, NDArray[np.float64]]:
        """The answers that are there."""
        found: dict[bytes, NDArray[np.float64]] = {}
        with self._lock:
            try:
                for first in range(0, len(keys), _AT_ONCE):
                    some = keys[first : first + _AT_ONCE]
                    places = ",".join("?" * len(some))
                    asked = f"SELECT key, scores FROM answers WHERE key IN ({places})"
                    found |= {key: np.frombuffer(scores) for key, scores in self._base.execute(asked, some)}
            except (sqlite3.Error, ValueError) as error:
                raise self._failed(error) from error
        return found

    def add(self, answers: Mapping[bytes, NDArray[np.float64]]) -> None:
        """Keep answers; one that is there already stays."""
        rows: Iterable[tuple[bytes, bytes]] = ((key, scores.tobytes()) for key, scores in answers.items())
        with self._lock:
            try:
                with self._base:
                    self._base.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> ModelError:
        return ModelError(
            f"answers cannot be kept in {self.path} ({error}), and without that they would be paid for again; choose another "
            f"place with store=..., or move the file away"
        )
