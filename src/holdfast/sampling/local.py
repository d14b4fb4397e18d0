"""The local engine: one device, batches that span inputs, constant memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from holdfast.classes import ClassCounts
from holdfast.evidence import Evidence, Selection
from holdfast.models import Model
from holdfast.noise import BlockKey, Gaussian, Stage
from holdfast.progress import OnDone
from holdfast.sampling.engine import Answer, Engine, Question, Task
from holdfast.sampling.tally import ClassTally, EstimationTally, SelectionTally, Tally
from holdfast.sampling.windows import in_windows

_MOST_WORKERS = 16
T = TypeVar("T", bound=Tally)


class _Piece(NamedTuple):
    """Copies ``first`` to ``last`` of a block, for the task in ``slot``."""

    slot: int
    block: BlockKey
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class LocalEngine(Engine):
    """Runs every copy on the model's own device.

    Every forward pass has exactly ``batch`` rows (the last one is padded), so that a network whose rows do not depend on
    how many others there are gives the same answer whatever the batch size. On a CPU, threads share the blocks, each
    with its own tally: that scales better than threads within one forward pass, and does not stall when the machine has
    other work to do.
    """

    model: Model
    noise: Gaussian
    seed: int
    batch: int

    def answer(self, questions: Iterable[Question], *, on_copies: OnDone) -> Iterator[list[Answer]]:
        """A window of inputs at a time."""
        return in_windows(self, questions, on_copies=on_copies)

    def select(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Selection]:
        """Average scores of all classes."""
        tally = self._run(tasks, Stage.SELECTION, lambda: SelectionTally(tasks, self.model.device), on_copies)
        return tally.selections()

    def estimate(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Evidence]:
        """One pass for label, score and margin; only counts are kept."""
        tally = self._run(tasks, Stage.ESTIMATION, lambda: EstimationTally(tasks, self.model.device), on_copies)
        return tally.evidence(self.noise.sigma)

    def count_classes(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[ClassCounts]:
        """One pass for all classes."""
        tally = self._run(tasks, Stage.ESTIMATION, lambda: ClassTally(tasks, self.model.device), on_copies)
        return tally.class_counts(self.noise.sigma)

    def _run(self, tasks: Sequence[Task], stage: Stage, new_tally: Callable[[], T], on_copies: OnDone) -> T:
        pieces = self._pieces(tasks, stage)
        inputs = [task.x.to(self.model.device) for task in tasks]
        stop = Event()

        def work(share: Sequence[_Piece]) -> T:
            tally = new_tally()
            for copies, slots in self._batches(share, inputs):
                if stop.is_set():
                    break
                tally.add(self.model.probabilities(copies)[: len(slots)], slots)
                on_copies(len(slots))
            return tally

        workers = 1 if self.model.device.type != "cpu" else min(torch.get_num_threads(), len(pieces), _MOST_WORKERS)
        with self.model.prepared(), _pool(workers) as pool:
            running = [pool.submit(work, pieces[first::workers]) for first in range(workers)]
            try:
                tally, *others = [each.result() for each in running]
            finally:
                stop.set()
        for other in others:
            tally.merge(other)
        tally.check(self.model.name)
        return tally

    def _pieces(self, tasks: Sequence[Task], stage: Stage) -> list[_Piece]:
        rows = self.noise.block_rows(tasks[0].x.shape)
        pieces = []
        for slot, task in enumerate(tasks):
            for number in range(task.start // rows, -(-task.stop // rows)):
                first, last = max(task.start - number * rows, 0), min(task.stop - number * rows, rows)
                pieces.append(_Piece(slot, BlockKey(self.seed, task.index, stage, number), first, last))
        return pieces

    def _batches(self, pieces: Sequence[_Piece], inputs: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Noisy copies of all pieces in turn, ``batch`` rows at a time, with the slot of each row that counts."""
        device, shape = self.model.device, inputs[0].shape
        buffer = torch.zeros(self.batch, *shape, device=device)
        slots = torch.zeros(self.batch, dtype=torch.int64)
        filled = 0
        for piece in pieces:
            block = self.noise.standard_block(piece.block, shape, device)
            taken = piece.first
            while taken < piece.last:
                rows = min(piece.last - taken, self.batch - filled)
                part = buffer[filled : filled + rows]
                torch.add(inputs[piece.slot], block[taken : taken + rows], alpha=self.noise.multiplier, out=part)
                slots[filled : filled + rows] = piece.slot
                taken += rows
                filled += rows
                if filled == self.batch:
                    yield buffer, slots.to(device, copy=True)
                    filled = 0
        if filled:
            yield buffer, slots[:filled].to(device, copy=True)


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that share torch's own threads among them; then torch's setting again."""
    threads = torch.get_num_threads()

    def settle() -> None:
        torch.set_num_threads(max(1, threads // workers))

    try:
        with ThreadPoolExecutor(workers, initializer=settle) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
