"""The scheduler's thread: requests of all callers share batches, in jobs of a quarter of a second."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import cast

from holdfast.errors import ModelError
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.scheduler import Done, JobSizer, Scheduler
from holdfast.service.metrics import Metrics
from holdfast.service.refusals import Refusal
from holdfast.service.requests import AnyServed
from holdfast.service.shares import FairShare

_JOB_S = 0.25
_LEAST_JOB = 256
_SHARING = 8
_BROKEN = 3
_log = logging.getLogger("holdfast.service")


class BatchScheduler:
    """Requests take turns: a job is a quarter of a second's copies, divided among those whose turn it is.

    What one request does cannot disturb another: a copy's counts depend on its span alone, and a request whose input the
    model cannot answer fails by itself. One that was stopped is left out of the next job. All but the thread's own work is
    called from one thread, the server's.
    """

    def __init__(self, sampler: LocalSampler, *, queue: int) -> None:
        self.places = FairShare(queue)
        self.metrics = Metrics(self.places, ready=lambda: self.alive)
        self._failures = 0
        self._arrived: SimpleQueue[AnyServed | None] = SimpleQueue()
        self._open: dict[str, AnyServed] = {}
        self._closing = False
        self._sampler = sampler
        self._thread = threading.Thread(target=self._work, name="holdfast-scheduler", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop every request, streams with what they have, and the thread after its present job."""
        self._closing = True
        self._arrived.put(None)
        for request in list(self._open.values()):
            request.stop(Refusal(503, "the service is closing"))
        if self._thread.is_alive():
            self._thread.join()
        self._sampler.workers.pool.shutdown()

    @property
    def alive(self) -> bool:
        """Whether the thread runs and its last jobs did not all fail."""
        return self._thread.is_alive() and not self._closing and self._failures < _BROKEN

    @contextmanager
    def admission(self, caller: str) -> Iterator[None]:
        """A place in the queue, for as long as a caller is being answered; refused at once if this one may have no more."""
        if not self.places.take(caller, 1):
            raise Refusal(
                429,
                f"{self.places.taken} of {self.places.capacity} places are taken, and a caller may have as many as are free; "
                f"try again later",
            )
        try:
            yield
        finally:
            self.places.give(caller, 1)

    def submit(self, request: AnyServed) -> None:
        """Let a request take part from the next job on."""
        if not self._thread.is_alive():
            raise Refusal(503, "the service is closing" if self._closing else "the device does not work")
        self._open[request.id] = request
        self._arrived.put(request)

    def stop(self, identity: str) -> bool:
        """Stop a request; whether one of that name was open."""
        request = self._open.get(identity)
        if request is None or request.over:
            return False
        request.stop()
        return True

    def _work(self) -> None:
        sizer = JobSizer(
            _LEAST_JOB,
            _JOB_S,
            least=_LEAST_JOB,
            together=self._sampler.together,
            sharing=_SHARING,
            most_open=self.places.capacity,
        )
        scheduler = Scheduler(self._sampler, sizer, in_order=False, isolate=True, on_done=self._measure)
        for request in scheduler.run(self._requests()):
            served = cast(AnyServed, request)
            if served.error is None:
                self.metrics.seconds.observe(served.seconds)
            del self._open[served.id]

    def _requests(self) -> Iterator[AnyServed | None]:
        """Requests that have arrived; None while others are in progress. Blocks if there is nothing to do."""
        while True:
            try:
                request = self._arrived.get(block=not self._open)
            except Empty:
                yield None
                continue
            if request is None:
                return
            yield request

    def _measure(self, done: Done) -> None:
        """Count a job; one that the model refused says nothing about the device."""
        if isinstance(done.counts, Exception):
            if not isinstance(done.counts, ModelError):
                self._failures += 1
                _log.error("a job failed", exc_info=done.counts)
            return
        self._failures = 0
        self.metrics.copies.inc(done.job.copies)
        self.metrics.rounds.inc()
        self.metrics.shared_rounds.inc(len(done.job.requests) > 1)
        self.metrics.speed.set(done.job.copies / max(done.seconds, 1e-4))
