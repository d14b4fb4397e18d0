"""Answers that were paid for, on disk: each reply as it came, and where the answer to each row is in it."""

import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ModelError

_AT_ONCE = 500
_TABLES = (
    "CREATE TABLE IF NOT EXISTS replies (number INTEGER PRIMARY KEY, rows INTEGER, body BLOB)",
    "CREATE TABLE IF NOT EXISTS places (key BLOB PRIMARY KEY, reply INTEGER, place INTEGER) WITHOUT ROWID",
)

Parse = Callable[[bytes, int], NDArray[np.float64]]
"""From a reply, and how many rows it is about, to their scores."""


@dataclass(frozen=True)
class Reply:
    """What came of one request, before anything was made of it: whoever takes the scores out otherwise finds others.

    Attributes:
        rows: that were asked for.
        places: of those that are wanted, by their keys.
    """

    body: bytes
    rows: int
    places: Mapping[bytes, int]


class AnswerStore:
    """Tables of SQLite, written in one transaction for each batch: a process that is killed loses the replies of the present one."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, check_same_thread=False, timeout=60)
            weakref.finalize(self, self._base.close)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")  # a power cut may take the last few, and nothing else
            with self._base:
                for table in _TABLES:
                    self._base.execute(table)
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    @staticmethod
    def keys(scope: bytes, questions: Iterable[bytes]) -> list[bytes]:
        """What the answers to questions are found by; the same question of another scope is another."""
        start, keys = sha256(scope), []
        for question in questions:
            digest = start.copy()
            digest.update(question)
            keys.append(digest.digest()[:16])
        return keys

    def __len__(self) -> int:
        with self._locked():
            (count,) = self._base.execute("SELECT count(*) FROM places").fetchone()
        return int(count)

    def scores(self, keys: Sequence[bytes], parse: Parse) -> dict[bytes, NDArray[np.float64]]:
        """The scores of the rows that were answered, as ``parse`` finds them in the replies."""
        places: dict[int, dict[bytes, int]] = {}
        known: dict[bytes, NDArray[np.float64]] = {}
        with self._locked():
            try:
                for first in range(0, len(keys), _AT_ONCE):
                    some = keys[first : first + _AT_ONCE]
                    wanted = ",".join("?" * len(some))
                    asked = f"SELECT key, reply, place FROM places WHERE key IN ({wanted})"
                    for key, number, place in self._base.execute(asked, some):
                        places.setdefault(number, {})[key] = place
                for number, found in places.items():
                    reply = self._base.execute("SELECT body, rows FROM replies WHERE number = ?", (number,)).fetchone()
                    if reply is None:
                        raise LookupError("it is missing")
                    scores = parse(*reply)
                    known |= {key: scores[place] for key, place in found.items()}
            except (LookupError, ModelError, TypeError) as error:
                raise ModelError(
                    f"a reply that is kept in {self.path} cannot be used ({error}); take back what was changed in answer=, or, if "
                    f"nothing was, delete this file, which is damaged: its rows are asked about again"
                ) from error
        return known

    def add(self, replies: Sequence[Reply]) -> None:
        """Keep replies; a row that is answered already keeps its answer."""
        with self._locked(), self._base:
            for reply in replies:
                made = self._base.execute("INSERT INTO replies (rows, body) VALUES (?, ?)", (reply.rows, reply.body))
                rows = [(key, made.lastrowid, place) for key, place in reply.places.items()]
                self._base.executemany("INSERT OR IGNORE INTO places VALUES (?, ?, ?)", rows)

    def forget(self, keys: Sequence[bytes]) -> None:
        """Ask about these rows again."""
        with self._locked(), self._base:
            self._base.executemany("DELETE FROM places WHERE key = ?", [(key,) for key in keys])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> ModelError:
        return ModelError(
            f"answers cannot be kept in {self.path} ({error}), and without that they would be paid for again; choose another "
            f"place with store=..., or move the file away"
        )
