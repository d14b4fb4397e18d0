"""Jobs: what one request wants of the device, a span of copies at a time."""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.certificates.evidence import Evidence, Selection
from holdfast.noise.drawing.blocks import block_rows
from holdfast.sampling import Task
from holdfast.sequential import SequentialTest
from holdfast.sequential.looks import Look
from holdfast.serve.refusals import Stopped


@dataclass(frozen=True, eq=False)
class Asked:
    """An input, what keys its noise, and how many copies choose its class."""

    x: Tensor
    seed: int
    index: int
    n0: int


class Job(ABC):
    """A request on the device. The device's thread gives it results; others read where it stands, or stop it.

    ``watched`` says how many single copies somebody wants to see. A job is over when it has all it wanted, when it failed,
    or when it was stopped: then ``error`` says why, if anything.
    """

    def __init__(self, asked: Asked, *, watched: int = 0) -> None:
        self.watched = watched
        self.id = secrets.token_hex(8)
        self.asked = asked
        self.selection: Selection | None = None
        self.evidence: Evidence | None = None
        self.error: Exception | None = None
        self.began = time.monotonic()
        self.seconds = 0.0
        self.peeked: tuple[Evidence, ...] | None = None
        self._lock = threading.RLock()  # a signal's handler may stop a job that this very thread is stopping
        self._over = False
        self._listener: Callable[[], None] = _nobody

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this from the device's thread whenever something has changed; it must not take long."""
        self._listener = listener

    @property
    def over(self) -> bool:
        """Whether the device is done with it."""
        return self._over

    @property
    def drawn(self) -> int:
        """Estimation copies counted so far."""
        return 0 if self.evidence is None else self.evidence.n

    def stop(self, error: Exception | None = None) -> None:
        """Take nothing more from the device."""
        with self._lock:
            if not self._over:
                self.error = error or Stopped("the request was stopped")
                self._end()

    def next_task(self, most: int) -> Task | None:
        """The copies it wants next, about ``most`` of them; None once it has what it wanted."""
        asked = self.asked
        if self.selection is None:
            return Task(asked.index, asked.x, 0, asked.n0, seed=asked.seed)
        stop = self._next_stop(most)
        if stop <= self.drawn:
            return None
        return Task(asked.index, asked.x, self.drawn, stop, self.selection.predicted, asked.seed)

    def take(self, found: Selection | Evidence) -> None:
        """Results of the task asked for last; one that was stopped meanwhile has no use for them."""
        with self._lock:
            if self._over:
                return
            if isinstance(found, Selection):
                self.selection = found
            else:
                self.evidence = found if self.evidence is None else self.evidence + found
                self._counted(found)
            if self._next_stop(1) <= self.drawn:
                self._end()
            else:
                self._listener()

    def peeks(self) -> list[Task]:
        """Single copies to be shown with their scores, once the class is chosen; none unless somebody watches."""
        if self.watched == 0 or self.selection is None or self.peeked is not None:
            return []
        asked, target = self.asked, self.selection.predicted
        return [Task(asked.index, asked.x, k, k + 1, target, asked.seed) for k in range(self.watched)]

    def _end(self) -> None:
        self.seconds = time.monotonic() - self.began
        self._over = True
        self._listener()

    @property
    @abstractmethod
    def wanted(self) -> int:
        """Estimation copies it takes at most."""

    @abstractmethod
    def _next_stop(self, most: int) -> int:
        """Up to which copy the next span should go."""

    @abstractmethod
    def _counted(self, fresh: Evidence) -> None:
        """A span was counted."""


class CertifyJob(Job):
    """All copies of one certificate; ``looked`` keeps the counts as they stood at each planned look."""

    def __init__(self, asked: Asked, looks: Sequence[Look], *, watched: int = 0) -> None:
        super().__init__(asked, watched=watched)
        self.looks = tuple(looks)
        self.looked: list[Evidence] = []

    @property
    def wanted(self) -> int:
        """Copies in all."""
        return self.looks[-1].n

    def _next_stop(self, most: int) -> int:
        if len(self.looked) == len(self.looks):
            return self.drawn
        block = block_rows(self.asked.x.shape)
        # A span ends with a block of noise if it can, so that none is drawn twice, or at a look.
        whole = max(block, most // block * block) - self.drawn % block
        return min(self.drawn + (whole if most >= block else min(whole, most)), self.looks[len(self.looked)].n)

    def _counted(self, fresh: Evidence) -> None:  # noqa: ARG002
        if self.evidence is not None and self.evidence.n == self.looks[len(self.looked)].n:
            self.looked.append(self.evidence)


class DecideJob(Job):
    """As many copies as one question takes."""

    def __init__(
        self, asked: Asked, deciding: SequentialTest, measure: str, *, seeded_by: str, watched: int = 0
    ) -> None:
        super().__init__(asked, watched=watched)
        self.deciding = deciding
        self.measure = measure
        self.seeded_by = seeded_by

    @property
    def wanted(self) -> int:
        """Copies after which it gives up."""
        return self.deciding.n_max

    def _next_stop(self, most: int) -> int:  # noqa: ARG002
        # The blocks of the game are its own: other ones would be another game, with another answer.
        return self.drawn + self.deciding.next_batch

    def _counted(self, fresh: Evidence) -> None:
        self.deciding.update(fresh[self.measure])


def _nobody() -> None:
    """Nobody listens."""
