"""Flows: which job comes next, and what the results of jobs add up to, in whatever order they come back."""

import itertools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from holdfast.certificates.evidence import Evidence, Selection
from holdfast.noise.drawing.blocks import block_rows
from holdfast.sampling.engine import Answer, Question, Task
from holdfast.sampling.jobs import Answering, Estimating, Job, Selecting, TaskJob

_MOST_INPUTS = 32
_JOB_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """What came back of a job: its results, packed, and how long they took."""

    results: bytes
    seconds: float

    def unpacked(self) -> list[Any]:
        """One result for each task or question of the job."""
        found: list[Any] = pickle.loads(self.results)
        return found


class Pace:
    """How many copies make a job of about half a second: learnt from the jobs before."""

    def __init__(self, least: int) -> None:
        self._least = least
        self.copies = least

    def learn(self, copies: int, seconds: float) -> None:
        """A job of so many copies took so long; one that was over at once says only that it could have been larger."""
        towards = int(_JOB_S * copies / max(seconds, 1e-3))
        if seconds > _JOB_S / 5 or towards > self.copies:
            self.copies = max(self._least, min(towards, 4 * self.copies))

    def span(self, block: int) -> int:
        """The same in whole blocks of noise."""
        return block * max(1, self.copies // block)


class Flow(ABC, Generic[T]):
    """A source of jobs and a sink of their results."""

    @abstractmethod
    def next_job(self) -> Job | None:
        """Another job, if there is one now."""

    @abstractmethod
    def take(self, job: Job, done: Done) -> None:
        """A job's results, in any order of the jobs."""

    @abstractmethod
    def finished(self) -> Iterator[list[T]]:
        """What is finished and was not handed over yet, in order."""


class Spread(Flow[T]):
    """Tasks that are all known: small ones together, large ones cut at blocks of noise; their results add up."""

    def __init__(self, kind: type[TaskJob], tasks: Sequence[Task], pace: Pace, workers: int) -> None:
        total = sum(task.stop - task.start for task in tasks)
        block = block_rows(tasks[0].x.shape)
        span = min(pace.span(block), block * max(1, -(-total // (workers * block))))
        self._jobs = iter(_packed(kind, tasks, span, block))
        self._where: dict[Job, list[int]] = {}
        self._cut_all = False
        self._results: list[T | None] = [None] * len(tasks)

    def next_job(self) -> Job | None:
        """The next few tasks, or the next span of a large one."""
        found = next(self._jobs, None)
        if found is None:
            self._cut_all = True
            return None
        job, self._where[job] = found.job, found.positions
        return job

    def take(self, job: Job, done: Done) -> None:
        """Add them up."""
        for position, result in zip(self._where.pop(job), done.unpacked(), strict=True):
            before: Any = self._results[position]
            self._results[position] = result if before is None else before + result

    def finished(self) -> Iterator[list[T]]:
        """Everything at once, at the end."""
        if self._cut_all and not self._where:
            self._cut_all = False
            yield [result for result in self._results if result is not None]


@dataclass(frozen=True)
class _Packed:
    """A job, and which tasks its pieces belong to."""

    job: TaskJob
    positions: list[int]


def _packed(kind: type[TaskJob], tasks: Sequence[Task], span: int, block: int) -> Iterator[_Packed]:
    """As many copies in a job as make a span; a cut is where a block of noise ends."""
    pieces: list[tuple[int, Task]] = []
    room = span
    for position, task in enumerate(tasks):
        start = task.start
        while start < task.stop:
            stop = min(task.stop, -(-(start + room) // block) * block)
            pieces.append((position, replace(task, start=start, stop=stop)))
            room -= stop - start
            start = stop
            if room <= 0:
                yield _job_of(kind, pieces)
                pieces, room = [], span
    if pieces:
        yield _job_of(kind, pieces)


def _job_of(kind: type[TaskJob], pieces: Sequence[tuple[int, Task]]) -> _Packed:
    return _Packed(kind(tuple(piece for _, piece in pieces)), [position for position, _ in pieces])


@dataclass
class _Open:
    """A large input on its way: first its class, then its spans."""

    question: Question
    selection: Selection | None = None
    evidence: Evidence | None = None
    cut: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        return self.evidence is not None and self.evidence.n == self.question.n


class Answers(Flow[Answer]):
    """Questions that are asked for one by one: whole inputs together while they are small, one cut up if it is large.

    At most ``most_open`` groups are on their way or wait for an earlier one, so that memory does not grow.
    """

    def __init__(self, questions: Iterable[Question], pace: Pace, most_open: int) -> None:
        self._questions = iter(questions)
        self._pace = pace
        self._most_open = most_open
        self._turns = itertools.count()
        self._turn_of: dict[Job, int] = {}
        self._large: dict[int, _Open] = {}
        self._small: dict[int, Done | None] = {}
        self._next = 0

    def next_job(self) -> Job | None:
        """A span of the first input that has some left, or else new inputs."""
        for turn, large in self._large.items():
            if large.selection is not None and large.cut < large.question.n:
                return self._sent(turn, self._span(large))
        if len(self._large) + len(self._small) >= self._most_open:
            return None
        first = next(self._questions, None)
        if first is None:
            return None
        turn, each = next(self._turns), first.n0 + first.n
        if first.n > self._pace.span(block_rows(first.x.shape)):
            self._large[turn] = _Open(first)
            return self._sent(turn, Selecting((Task(first.index, first.x, 0, first.n0),)))
        more = itertools.islice(self._questions, min(_MOST_INPUTS, max(1, self._pace.copies // each)) - 1)
        self._small[turn] = None
        return self._sent(turn, Answering((first, *more)))

    def take(self, job: Job, done: Done) -> None:
        """Small inputs wait packed for their turn; those of a large one are added up."""
        turn = self._turn_of.pop(job)
        if turn in self._small:
            self._small[turn] = done
            return
        large = self._large[turn]
        large.seconds += done.seconds
        (result,) = done.unpacked()
        if isinstance(result, Selection):
            large.selection = result
        else:
            large.evidence = result if large.evidence is None else large.evidence + result

    def finished(self) -> Iterator[list[Answer]]:
        """Those whose turn it is."""
        while True:
            large, small = self._large.get(self._next), self._small.get(self._next)
            if small is not None:
                del self._small[self._next]
                self._next += 1
                yield small.unpacked()
            elif large is not None and large.whole:
                assert large.selection is not None
                assert large.evidence is not None
                del self._large[self._next]
                self._next += 1
                yield [Answer(large.selection, large.evidence, large.seconds)]
            else:
                return

    def _span(self, large: _Open) -> Job:
        assert large.selection is not None
        question = large.question
        stop = min(question.n, large.cut + self._pace.span(block_rows(question.x.shape)))
        start, large.cut = large.cut, stop
        return Estimating((Task(question.index, question.x, start, stop, large.selection.predicted),))

    def _sent(self, turn: int, job: Job) -> Job:
        self._turn_of[job] = turn
        return job
