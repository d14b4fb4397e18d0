"""Requests of callers: a request that can be watched and stopped while it is sampled."""

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar, cast

from holdfast.certificates.evidence import Evidence, Selection
from holdfast.errors import ModelError
from holdfast.progress import ignore
from holdfast.sampling.requests import AnyRequest, Request, Step
from holdfast.sampling.span import Counts
from holdfast.service.refusals import Refusal

R = TypeVar("R", bound=AnyRequest)


class ServedRequest(Request[Any], Generic[R]):
    """Another request, which callers watch or stop while the scheduler's thread gives it counts.

    It is over when it has all it wanted, when it failed, or when it was stopped: then ``error`` says why, if anything.
    ``watched`` says how many single copies somebody wants to see; they come in ``shown``.
    """

    def __init__(self, inner: R, *, caller: str = "", watched: int = 0, seeded_by: str = "service") -> None:
        super().__init__(inner.x, inner.seed, inner.index, inner.n0, inner.n, shift=inner.shift, caller=caller)
        self.inner = inner
        self.watched, self.seeded_by = watched, seeded_by
        self.id = secrets.token_hex(8)
        self.selection: Selection | None = None
        self.evidence: Evidence | None = None
        self.shown: tuple[Evidence, ...] | None = None
        self.error: Exception | None = None
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._on_change: Callable[[], object] = ignore

    async def changes(self) -> AsyncIterator[None]:
        """Once at the beginning, whenever something has changed, and once when it is over; for one watcher."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()
        self._on_change = lambda: loop.call_soon_threadsafe(changed.set)
        try:
            while True:
                over = self.over
                yield
                if over:
                    return
                await changed.wait()
                changed.clear()
        finally:
            self._on_change = ignore

    def steps(self) -> Step[Any]:
        """The inner request's steps; once the class is chosen, a few single copies for callers who watch."""
        steps = self.inner.steps()
        spans = next(steps)
        while True:
            counts = yield spans
            if self.watched and self.shown is None and self.selection is not None:
                target = self.selection.predicted
                shown = yield [self._estimation(k, k + 1, target) for k in range(self.watched)]
                self.shown = tuple(cast(Evidence, each) for each in shown)
            try:
                spans = steps.send(counts)
            except StopIteration as end:
                return end.value
            self._on_change()

    def counted(self, counts: Counts) -> None:
        """A part of what it waits for."""
        if isinstance(counts, Selection):
            self.selection = counts if self.selection is None else self.selection + counts
        elif isinstance(counts, Evidence) and (not self.watched or self.shown is not None):
            self.evidence = counts if self.evidence is None else self.evidence + counts
        self._on_change()

    def finish(self, result: Any) -> None:
        """All steps are done."""
        self._end(result, None)

    def fail(self, error: Exception) -> None:
        """The model refused its copies, or something broke."""
        self._end(None, Refusal(422, str(error)) if isinstance(error, ModelError) else error)

    def stop(self, error: Exception | None = None) -> None:
        """Take nothing more."""
        self._end(None, error or Refusal(409, "the request was stopped"))

    def _end(self, result: Any, error: Exception | None) -> None:
        with self._lock:
            if not self.over:
                self.result, self.error = result, error
                self.seconds = time.monotonic() - self._began
                self.over = True
                self._on_change()


AnyServed = ServedRequest[Any]
