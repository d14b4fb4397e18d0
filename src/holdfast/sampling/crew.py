"""A crew: workers that are given jobs, and replaced when they are lost."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.errors import ClusterError
from holdfast.progress import OnDone
from holdfast.sampling.flow import Flow, Pace
from holdfast.sampling.jobs import Job
from holdfast.sampling.worker import Refusal, Setup

_IN_FLIGHT = 2
_MOST_ATTEMPTS = 10
_LOSSES_PER_WORKER = 4
_FEWEST_LOSSES = 10
_PATIENCE_S = 180.0
_LOOK_S = 5.0
T = TypeVar("T")


@dataclass(eq=False)
class _Hand:
    """A worker, as seen from here: it gets jobs once it has loaded the model."""

    actor: Any
    ready: bool = False
    sent: int = 0


@dataclass(eq=False)
class _Sent:
    """A job on its way, or the loading of the model."""

    hand: _Hand
    job: Job | None
    attempts: int = field(default=1)


class Crew:
    """Hands out jobs and collects their results.

    A worker has two jobs at most, so that it never waits for the next and little is lost with it. A lost worker is
    replaced and its jobs are done again. A job that loses one worker after the other is given up, and so is everything
    if many are lost and nothing is done in between.
    """

    def __init__(self, ray: Any, hire: Callable[[], Any], workers: int, pace: Pace) -> None:
        self._ray = ray
        self._hire = hire
        self.workers = workers
        self.pace = pace
        self._hands: list[_Hand] = []
        self._sent: dict[Any, _Sent] = {}
        self._again: deque[tuple[Job, int]] = deque()
        self._losses = 0
        self._turn = 0
        self._alive = time.monotonic()
        for _ in range(workers):
            self._take_on()

    def work(self, flow: Flow[T], setup: Setup, on_copies: OnDone) -> Iterator[list[T]]:
        """Everything the flow makes of its jobs, in order, as it is finished."""
        self._forget()
        self._turn += 1
        turn, self._alive = self._turn, time.monotonic()
        try:
            while True:
                self._hand_out(flow, setup)
                for some in flow.finished():
                    yield some
                    if turn != self._turn:
                        raise ClusterError(
                            "the cluster was asked something else before this was finished, and does one thing at a time; "
                            "take all certificates of one question before the next, or use two clusters"
                        )
                self._hand_out(flow, setup)  # what was handed over made room for more
                if self._ready_hands() and not self._busy():
                    return
                self._collect(flow, on_copies)
        finally:
            if turn == self._turn:
                self._forget()

    def dismiss(self) -> None:
        """End all workers."""
        self._turn += 1
        for hand in self._hands:
            self._ray.kill(hand.actor)
        self._hands, self._sent = [], {}

    def _take_on(self) -> None:
        hand = _Hand(self._hire())
        self._hands.append(hand)
        self._sent[hand.actor.load.remote()] = _Sent(hand, None)

    def _busy(self) -> bool:
        return bool(self._again) or any(sent.job is not None for sent in self._sent.values())

    def _ready_hands(self) -> list[_Hand]:
        return [hand for hand in self._hands if hand.ready]

    def _hand_out(self, flow: Flow[T], setup: Setup) -> None:
        """The next job to whoever has fewest."""
        while free := [hand for hand in self._ready_hands() if hand.sent < _IN_FLIGHT]:
            if self._again:
                job, attempts = self._again.popleft()
            else:
                found = flow.next_job()
                if found is None:
                    return
                job, attempts = found, 1
            hand = min(free, key=lambda each: each.sent)
            hand.sent += 1
            self._sent[hand.actor.run.remote(job, setup)] = _Sent(hand, job, attempts)

    def _collect(self, flow: Flow[T], on_copies: OnDone) -> None:
        """Wait for something to happen, and take in everything that has."""
        waiting = list(self._sent)
        if self._ray.wait(waiting, num_returns=1, timeout=_LOOK_S)[0]:
            self._alive = time.monotonic()
        elif not self._ready_hands() and time.monotonic() - self._alive > _PATIENCE_S:
            raise ClusterError(
                f"no worker could be started within {_PATIENCE_S:.0f} seconds, although the cluster had room for "
                f"{self.workers}; look at 'ray status', and run the same command again: it goes on where it stopped"
            )
        for reference in self._ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]:
            if reference in self._sent:  # a worker that was lost meanwhile took its other jobs with it
                self._take_in(reference, flow, on_copies)

    def _take_in(self, reference: Any, flow: Flow[T], on_copies: OnDone) -> None:
        errors = self._ray.exceptions
        sent = self._sent[reference]
        try:
            done = self._ray.get(reference)
        except errors.RayTaskError:
            raise  # not a loss: the same would happen anywhere
        except errors.RayError as error:
            self._replace(sent.hand, error)
            return
        del self._sent[reference]
        if isinstance(done, Refusal):
            raise done.error
        if sent.job is None:
            sent.hand.ready = True
            return
        sent.hand.sent -= 1
        self._losses = 0
        self.pace.learn(sent.job.copies, done.seconds)
        flow.take(sent.job, done)
        on_copies(sent.job.copies)

    def _replace(self, lost: _Hand, error: Exception) -> None:
        """Another worker for a lost one; its jobs come first."""
        self._losses += 1
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        if self._losses >= max(_FEWEST_LOSSES, _LOSSES_PER_WORKER * self.workers):
            raise ClusterError(
                f"{self._losses} workers were lost in a row and nothing was done in between; the last one: {reason} "
                f"The model may crash its process or need more memory than there is: try it with --engine local"
            )
        for reference, sent in list(self._sent.items()):
            if sent.hand is lost:
                del self._sent[reference]
                if sent.job is not None:
                    self._do_again(sent.job, sent.attempts, reason)
        self._hands.remove(lost)
        self._ray.kill(lost.actor)
        self._take_on()

    def _do_again(self, job: Job, attempts: int, reason: str) -> None:
        if attempts >= _MOST_ATTEMPTS:
            raise ClusterError(
                f"the same job lost its worker {attempts} times; the last time: {reason} "
                f"The model may crash on some input or need more memory than there is: try it with --engine local"
            )
        self._again.append((job, attempts + 1))

    def _forget(self) -> None:
        """Jobs that nobody waits for any more; workers finish them, and nobody looks."""
        self._again.clear()
        for reference, sent in list(self._sent.items()):
            if sent.job is not None:
                del self._sent[reference]
                sent.hand.sent -= 1
