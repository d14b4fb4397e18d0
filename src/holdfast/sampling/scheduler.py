"""One scheduler: keeps batches full from whatever requests are open, and hands their counts back."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import ModelError, UnsteadyModel
from holdfast.noise.drawing.blocks import block_rows
from holdfast.progress import ignore
from holdfast.sampling.requests import AnyRequest
from holdfast.sampling.span import Counting, Counts, NoiseSpan

_GROWTH = 4
_SHORT = 1_024
"""Copies of a selection that are run in one job, so that what is counted for the class that they choose can be in it, too."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A span, or a part of one, that an open request waits for."""

    open: "_Open"
    number: int
    span: NoiseSpan


@dataclass(frozen=True, eq=False)
class Job:
    """Pieces that are run together, so that they share batches."""

    pieces: tuple[Piece, ...]

    @property
    def spans(self) -> list[NoiseSpan]:
        """What is to be counted."""
        return [piece.span for piece in self.pieces]

    @property
    def copies(self) -> int:
        """Of all its pieces."""
        return sum(piece.span.copies for piece in self.pieces)

    @property
    def requests(self) -> list[AnyRequest]:
        """Who waits for it."""
        return list(dict.fromkeys(piece.open.request for piece in self.pieces))


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a job: counts for each piece, or an error; and how long it took."""

    job: Job
    counts: Sequence[Counts] | Exception
    seconds: float


class Executor(ABC):
    """Runs jobs: one after the other in this process, or several at a time elsewhere."""

    @property
    def compiled(self) -> bool:
        """Whether the model runs compiled."""
        return False

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether another job may be submitted now."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Take a job."""

    @abstractmethod
    def wait(self) -> list[Done]:
        """At least one job that came back; only called while some are out."""


@dataclass
class JobSizer:
    """How many copies make a job of about ``seconds``: learnt from the jobs before.

    Attributes:
        copies: of the next job.
        least: copies that a job has if there are so many.
        together: whether one job may choose a class and count for it.
        parallel: jobs that are run at once; the last ones are smaller, so that all end together.
        sharing: among how many requests, of as many callers as possible, a job is divided; 1 for one after the other, in order.
        most_open: requests that are open at once.
    """

    copies: int
    seconds: float
    least: int = 1
    together: bool = True
    parallel: int = 1
    sharing: int = 1
    most_open: int = 64

    def learn(self, copies: int, seconds: float) -> None:
        """A job of so many copies took so long; one that was over at once says only that it could have been larger."""
        towards = int(self.seconds * copies / max(seconds, 1e-3))
        if seconds > self.seconds / 5 or towards > self.copies:
            self.copies = max(self.least, min(towards, _GROWTH * self.copies))


@dataclass(eq=False)
class _Open:
    """A request, the spans of its present step, and what there is of their counts."""

    request: AnyRequest
    place: int
    steps: Generator[Sequence[NoiseSpan], Sequence[Counts], Any]
    spans: list[NoiseSpan] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    counts: list[Counts | None] = field(default_factory=list)
    missing: int = 0

    def advance(self, counts: Sequence[Counts] | None) -> None:
        """Hand over the counts of a step and begin the next; or finish the request."""
        try:
            spans = next(self.steps) if counts is None else self.steps.send(counts)
        except StopIteration as end:
            self.request.finish(end.value)
            self.spans, self.sent = [], []
        else:
            self.spans, self.sent = list(spans), [span.start for span in spans]
            self.counts, self.missing = [None] * len(self.spans), sum(span.copies for span in spans)

    @property
    def waiting(self) -> int:
        """Copies of the step that are not on their way yet."""
        return sum(span.stop - sent for span, sent in zip(self.spans, self.sent, strict=True))

    def take(self, most: int, *, together: bool) -> list[Piece]:
        """Pieces of about ``most`` copies; a selection comes before what is counted for its class, and a short one is not cut."""
        pieces: list[Piece] = []
        for number, span in enumerate(self.spans):
            start, selecting = self.sent[number], span.counting is Counting.SELECTION
            target = span.target if selecting else self._target(span, pieces if together else [])
            if target is None:
                continue
            whole = selecting and span.copies <= _SHORT
            stop = span.stop if whole else _cut(span, start, most - sum(piece.span.copies for piece in pieces))
            part = span if whole else replace(span, start=start, stop=stop, target=target)
            if start < stop:
                pieces.append(Piece(self, number, part))
                self.sent[number] = stop
        return pieces

    def _target(self, span: NoiseSpan, pieces: Sequence[Piece]) -> int | NoiseSpan | None:
        """The class that a span counts for, if it is known, or chosen in the same job."""
        if isinstance(span.target, int):
            return span.target
        chosen: Any = self.counts[self.spans.index(span.target)]
        if chosen is not None and chosen.n0 == span.target.copies:
            return int(chosen.predicted)
        return span.target if any(piece.span is span.target for piece in pieces) else None

    def add(self, piece: Piece, counts: Any) -> None:
        """Counts of a piece, in any order."""
        before: Any = self.counts[piece.number]
        self.counts[piece.number] = counts if before is None else before + counts
        self.missing -= piece.span.copies


def _cut(span: NoiseSpan, start: int, most: int) -> int:
    """Where a piece of about ``most`` copies ends: with a block of noise, if one is not too much, so that none is drawn twice."""
    block, end = block_rows(span.x.shape), start + max(0, most)
    if end >= span.stop:
        return span.stop
    return end // block * block if most >= block else min(end, (start // block + 1) * block)


class Scheduler:
    """Opens requests as there is room, makes jobs of what they wait for, and finishes them.

    A source of requests may yield None for "none at the moment". With ``isolate``, a job that the model refuses is run
    again request by request, and the guilty one fails alone. ``on_done`` is told of every job.
    """

    def __init__(
        self,
        executor: Executor,
        sizer: JobSizer,
        *,
        in_order: bool = True,
        isolate: bool = False,
        on_done: Callable[[Done], None] = ignore,
    ) -> None:
        self._executor, self._sizer, self._on_done = executor, sizer, on_done
        self._in_order, self._isolate = in_order, isolate
        self._open: list[_Open] = []
        self._again: list[Job] = []
        self._had: dict[str, int] = {}
        self._places = self._next = self._out = 0

    def run(self, requests: Iterable[AnyRequest | None]) -> Iterator[AnyRequest]:
        """The requests as they are finished; in their order, if that was asked for."""
        source = iter(requests)
        more = True
        while more or self._open:
            more = more and self._admit(source)
            self._submit()
            self._wait()  # a job and its requests are not kept beyond it, however long the source blocks
            yield from self._finished()

    def _admit(self, source: Iterator[AnyRequest | None]) -> bool:
        """Open further requests, as many as the next jobs have room for; False once there are no more."""
        sizer = self._sizer
        enough = math.inf if sizer.sharing > 1 else sizer.copies * sizer.parallel
        wanted = sum(each.waiting for each in self._open)
        while len(self._open) < sizer.most_open and wanted < enough:
            try:
                request = next(source)
            except StopIteration:
                return False
            if request is None:
                return True
            opened = _Open(request, self._places, request.steps())
            self._places += 1
            opened.advance(None)
            self._open.append(opened)
            wanted += opened.waiting
        return True

    def _submit(self) -> None:
        while self._executor.has_room and (job := self._next_job()) is not None:
            self._executor.submit(job)
            self._out += 1

    def _wait(self) -> None:
        if self._out:
            for done in self._executor.wait():
                self._out -= 1
                self._on_done(done)
                self._take(done)

    def _next_job(self) -> Job | None:
        """What wants little comes along first, as far as half of the room; the rest is divided among those whose turn it is."""
        if self._again:
            return self._again.pop()
        waiting = [each for each in self._open if each.waiting and not each.request.over]
        if not waiting:
            return None
        sizer, pieces = self._sizer, list[Piece]()
        left = sum(each.waiting for each in waiting)
        room = min(sizer.copies, max(sizer.least, left // sizer.parallel))
        callers = len({each.request.caller for each in waiting})
        share = max(1, room // min(len(waiting) if callers == 1 else callers, sizer.sharing))
        small = block_rows(waiting[0].spans[0].x.shape) // 2
        # No block of noise is begun for a last quarter; unless everything has room.
        enough = room // 4 if room < left else 0
        for some, least in (([each for each in waiting if each.waiting < small], room // 2), (waiting, enough)):
            for each in some:
                if room <= least:
                    break
                taken = each.take(min(share, room), together=sizer.together)
                room -= sum(piece.span.copies for piece in taken)
                pieces += taken
        if sizer.sharing > 1:
            self._take_turns(pieces)
        return Job(tuple(pieces)) if pieces else None

    def _take_turns(self, pieces: Sequence[Piece]) -> None:
        """The callers with the least copies come first next time, and of one caller's requests those that were not served."""
        had = {each.request.caller: self._had.get(each.request.caller) for each in self._open}
        least = min((copies for copies in had.values() if copies is not None), default=0)
        self._had = {caller: least if copies is None else copies for caller, copies in had.items()}
        for piece in pieces:
            self._had[piece.open.request.caller] += piece.span.copies
        served = {id(piece.open) for piece in pieces}
        self._open.sort(key=lambda each: (self._had[each.request.caller], id(each) in served))

    def _take(self, done: Done) -> None:
        if isinstance(done.counts, Exception):
            self._fail(done.job, done.counts)
            return
        self._sizer.learn(done.job.copies, done.seconds)
        for piece, found in zip(done.job.pieces, done.counts, strict=True):
            piece.open.add(piece, found)
            piece.open.request.counted(found)
            piece.open.request.compiled = self._executor.compiled
            piece.open.request.seconds += done.seconds * piece.span.copies / done.job.copies
        for each in dict.fromkeys(piece.open for piece in done.job.pieces):
            if not each.missing and not each.request.over:
                try:
                    each.advance([found for found in each.counts if found is not None])
                except Exception as error:
                    if not self._isolate:
                        raise
                    each.request.fail(error)

    def _fail(self, job: Job, error: Exception) -> None:
        if not self._isolate:
            raise error
        waiting = [request for request in job.requests if not request.over]
        if isinstance(error, ModelError) and not isinstance(error, UnsteadyModel) and len(waiting) > 1:
            self._again += [Job(tuple(each for each in job.pieces if each.open.request is one)) for one in waiting]
        else:
            for request in waiting:
                request.fail(error)

    def _finished(self) -> Iterator[AnyRequest]:
        """Those that are over, when their turn comes."""
        for each in sorted((each for each in self._open if each.request.over), key=lambda each: each.place):
            if self._in_order and each.place != self._next:
                break
            self._next += 1
            self._open.remove(each)
            yield each.request
