"""The device: one thread that runs everybody's copies, in rounds that share batches."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.certificates.evidence import Evidence, Selection
from holdfast.errors import ModelError
from holdfast.progress import ignore
from holdfast.sampling import Engine, Task
from holdfast.serve.jobs import Job
from holdfast.serve.refusals import Full, OutOfTime, Unacceptable

_ROUND_S = 0.25
_LEAST_ROUND = 256
_UNWATCHED = 2
_BROKEN = 3
_AT_ONCE = 8
_LONGEST_WAIT_S = 60
_log = logging.getLogger("holdfast.serve")


class _Abandoned(Exception):
    """Nobody of a round is there any more: its other batches need not be run."""


class Device:
    """Jobs take turns: a round is a quarter or half of a second's copies, shared equally by those whose turn it is.

    What one job does cannot disturb another: a copy's result depends on its task alone, and a job whose input the model
    cannot answer fails by itself. One that was stopped is left out of the next round, and a round of which nobody is left
    ends with its present batch.
    """

    def __init__(self, engine: Engine, *, queue: int, block: int) -> None:
        self._engine = engine
        self.capacity = queue
        self._block = block
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._taken = 0
        self._closing = False
        self._failures = 0
        self._thread = threading.Thread(target=self._work, name="holdfast-device", daemon=True)
        self._round = _LEAST_ROUND
        self.copies = 0
        self.rounds = 0
        self.shared = 0
        self.speed = 0.0

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop every job, and the thread after its present round."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        for job in self._jobs:
            job.stop(OutOfTime("the service is closing"))

    @property
    def alive(self) -> bool:
        """Whether the thread is there to work, and its last rounds did not all fail."""
        return self._thread.is_alive() and not self._closing and self._failures < _BROKEN

    @property
    def taken(self) -> int:
        """Requests that wait or are being answered."""
        return self._taken

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue, for as long as a request is being answered; refused at once if there is none."""
        with self._changed:
            if self._taken >= self.capacity:
                raise Full(
                    f"{self._taken} requests are waiting, which is as many as are taken; try again later",
                    self._patience(),
                )
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1

    def submit(self, job: Job) -> None:
        """Let a job take part from the next round on."""
        with self._changed:
            if self._closing:
                raise OutOfTime("the service is closing")
            if not self._thread.is_alive():
                raise OutOfTime("the device does not work")
            self._jobs.append(job)
            self._changed.notify_all()

    def _patience(self) -> int:
        """Seconds until a place should be free, from how fast requests were answered so far."""
        if not self.speed:
            return 1
        copies = sum(job.wanted - job.drawn for job in self._jobs)
        return max(1, min(_LONGEST_WAIT_S, math.ceil(copies / self.speed / max(1, len(self._jobs)))))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if self._closing:
                    return
                turn = self._turn()
            if turn:
                self._run(turn)
                with self._changed:
                    self._jobs.extend(job for job, _ in turn if not job.over)

    def _turn(self) -> list[tuple[Job, Task]]:
        """The jobs of the next round, and what each of them wants; the others keep their places.

        A few jobs get a long span each, since every span has its price. Who wants little, to choose a class or for the next
        step of a decision, comes along in any round: otherwise short questions would wait for long ones at each step.
        """
        waiting = [job for job in self._jobs if not job.over]
        # Where nobody watches, fewer and longer rounds cost less.
        enough = self._round * (1 if any(job.watched for job in waiting) else _UNWATCHED)
        # Whole blocks of noise, unless even one of them takes longer than a round.
        blocks = max(1, enough // (self._block * max(1, min(len(waiting), _AT_ONCE))))
        each = self._block * blocks if self._round >= self._block else self._round
        turn: dict[Job, Task] = {}
        copies = 0
        wants = [(job, task) for job in waiting if (task := job.next_task(each)) is not None]
        for small, most in ((True, enough // 2), (False, enough)):
            for job, task in wants:
                size = task.stop - task.start
                if copies < most and small == (2 * size < self._block):
                    turn[job] = task
                    copies += size
        self._jobs = deque(job for job in waiting if job not in turn)
        return list(turn.items())

    def _run(self, turn: Sequence[tuple[Job, Task]]) -> None:
        began = time.monotonic()
        choosing = [(job, task) for job, task in turn if job.selection is None]
        counting = [(job, task) for job, task in turn if job.selection is not None]
        self._pass(choosing)
        self._pass(counting)
        self._peek([job for job, _ in turn])
        copies = sum(task.stop - task.start for _, task in turn)
        seconds = max(time.monotonic() - began, 1e-4)
        self.copies += copies
        self.rounds += 1
        self.shared += len(turn) > 1
        speed = copies / seconds
        # A round that was over at once says little about speed: starting it is most of what it took.
        if seconds > _ROUND_S / 10 or speed > self.speed:
            self.speed = speed if not self.speed else 0.7 * self.speed + 0.3 * speed
            self._round = max(_LEAST_ROUND, int(min(4 * self._round, self.speed * _ROUND_S)))

    def _pass(self, some: Sequence[tuple[Job, Task]]) -> None:
        """One pass for all of them; if the model refuses, each for itself, so that only the guilty one fails."""
        if not some:
            return
        try:
            found = self._results(some)
        except _Abandoned:
            return
        except Exception as error:  # whatever happens on the device, the thread goes on with the next round
            if len(some) > 1 and isinstance(error, ModelError):
                for each in some:
                    self._pass([each])
                return
            if not isinstance(error, ModelError):
                self._failures += 1
                _log.exception("a round failed")
            for job, _ in some:
                job.stop(Unacceptable(str(error)) if isinstance(error, ModelError) else error)
            return
        self._failures = 0
        for (job, _), result in zip(some, found, strict=True):
            try:
                job.take(result)
            except Exception as error:  # what one job makes of its counts must not end everybody's thread
                _log.exception("a job failed on its results")
                job.stop(error)

    def _peek(self, jobs: Sequence[Job]) -> None:
        """Scores of single copies, for those who watch."""
        for job in jobs:
            if not job.over and (tasks := job.peeks()):
                try:
                    job.peeked = tuple(self._engine.estimate(tasks, on_copies=ignore))
                except Exception:  # they are for the eye only; if the model refuses, the job's own copies will say so
                    _log.exception("no copies can be shown")
                    job.peeked = ()

    def _results(self, some: Sequence[tuple[Job, Task]]) -> Sequence[Selection | Evidence]:
        tasks = [task for _, task in some]

        def after_a_batch(_: int) -> None:
            if all(job.over for job, _ in some):
                raise _Abandoned

        if some[0][0].selection is None:
            return self._engine.select(tasks, on_copies=after_a_batch)
        return self._engine.estimate(tasks, on_copies=after_a_batch)
