"""All noisy copies of some tasks, a batch at a time, for one worker or shared out among several."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.noise import Noise, Stage
from holdfast.noise.drawing.blocks import BlockKey, block_rows, standard_block
from holdfast.noise.drawing.counter import add_noise, key_words
from holdfast.sampling.engine import Task


@dataclass(frozen=True, eq=False)
class Batch:
    """Noisy copies, the task that each belongs to, and how many count.

    The last batch is filled up with copies of no account: they have the slot after the last task's.
    """

    copies: Tensor
    slots: Tensor
    count: int


@dataclass(frozen=True, eq=False)
class Copies(ABC):
    """The noisy copies of ``tasks``; which copies there are depends on the tasks, their stages and the seed alone."""

    tasks: Sequence[Task]
    noise: Noise
    seed: int
    stages: Sequence[Stage]
    batch: int

    @abstractmethod
    def batches(self, share: int, of: int, device: torch.device) -> Iterator[Batch]:
        """One worker's share of all copies, in batches of ``batch`` rows; a batch's tensors are reused by the next."""

    @property
    @abstractmethod
    def shares(self) -> int:
        """How many workers could have something to do."""

    @property
    def shape(self) -> torch.Size:
        """Of one input."""
        return self.tasks[0].x.shape

    def seed_of(self, task: Task) -> int:
        """The task's own secret, or the one that all others share."""
        return self.seed if task.seed is None else task.seed


def copies_for(device: torch.device) -> type[Copies]:
    """The kind of noisy copies that suits the device; the other kind would be other copies."""
    return BlockCopies if device.type == "cpu" else CounterCopies


class _Piece(NamedTuple):
    """Copies ``first`` to ``last`` of a block, for the task in ``slot``."""

    slot: int
    block: BlockKey
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class BlockCopies(Copies):
    """For CPUs: blocks of noise, each from a stream of its own, which NumPy draws faster than counters can be hashed."""

    def _blocks(self) -> Iterator[tuple[int, BlockKey, int, int]]:
        """The task's slot, the block, and from which to which of its rows the task needs."""
        rows = block_rows(self.shape)
        for slot, (task, stage) in enumerate(zip(self.tasks, self.stages, strict=True)):
            for number in range(task.start // rows, -(-task.stop // rows)):
                block = BlockKey(self.seed_of(task), task.index, stage, number)
                yield slot, block, max(task.start - number * rows, 0), min(task.stop - number * rows, rows)

    def _pieces(self) -> Iterator[_Piece]:
        """Blocks cut into as many rows as a batch has; one at a time, however many there are."""
        for slot, block, begin, end in self._blocks():
            for first in range(begin, end, self.batch):
                yield _Piece(slot, block, first, min(first + self.batch, end))

    @property
    def shares(self) -> int:
        """A batch is run by one worker."""
        return sum(-(-(end - begin) // self.batch) for _, _, begin, end in self._blocks())

    def batches(self, share: int, of: int, device: torch.device) -> Iterator[Batch]:
        """A stretch of all copies; a block on the border of two stretches is drawn by both workers."""
        count = self.shares
        pieces = islice(self._pieces(), count * share // of, count * (share + 1) // of)
        copies = torch.zeros(self.batch, *self.shape, device=device)
        slots = torch.full((self.batch,), len(self.tasks))
        filled = 0
        for drawn, group in groupby(pieces, key=lambda piece: piece.block):
            of_block = list(group)
            block = standard_block(self.noise, drawn, self.shape, max(piece.last for piece in of_block))
            for piece in of_block:
                x = self.tasks[piece.slot].x
                taken = piece.first
                while taken < piece.last:
                    rows = min(piece.last - taken, self.batch - filled)
                    part = copies[filled : filled + rows]
                    torch.add(x, block[taken : taken + rows], alpha=self.noise.multiplier, out=part)
                    slots[filled : filled + rows] = piece.slot
                    taken += rows
                    filled += rows
                    if filled == self.batch:
                        yield Batch(copies, slots, filled)
                        filled = 0
        if filled:
            slots[filled:] = len(self.tasks)
            copies[filled:] = copies[0].clone()
            yield Batch(copies, slots, filled)


@dataclass(frozen=True, eq=False)
class CounterCopies(Copies):
    """For GPUs: every number from its own counter, so that a batch is made in one pass where it is needed.

    Nothing travels but the inputs, once: which copy of which input a row is, is worked out on the device. Images are
    kept with their channels last, the order in which convolutions read them; noise is counted in that order.
    """

    @property
    def shares(self) -> int:
        """A batch is made by one worker."""
        return -(-sum(task.stop - task.start for task in self.tasks) // self.batch)

    def batches(self, share: int, of: int, device: torch.device) -> Iterator[Batch]:
        """Every ``of``-th batch of the tasks' copies one after the other."""
        image = len(self.shape) == 3
        # Together by NumPy: the host's threads would take longer to wake than to copy.
        inputs = torch.from_numpy(np.stack([task.x.numpy() for task in self.tasks])).to(device)
        inputs = (inputs.permute(0, 2, 3, 1) if image else inputs).reshape(len(self.tasks), -1)
        inputs = torch.cat((inputs, inputs[:1]))
        words = [
            key_words(self.seed_of(task), task.index, stage)
            for task, stage in zip(self.tasks, self.stages, strict=True)
        ]
        keys = torch.tensor([*words, [0, 0, 0]], device=device)
        ends = torch.tensor([task.stop - task.start for task in self.tasks]).cumsum(0)
        total = int(ends[-1])
        starts = [task.stop - int(end) for task, end in zip(self.tasks, ends, strict=True)]
        offsets = torch.tensor([*starts, 0], device=device)
        ends = ends.to(device)
        rows = torch.arange(self.batch, device=device)
        flat = torch.empty(self.batch, inputs.shape[1], device=device)
        if image:
            channels, height, width = self.shape
            copies = flat.view(self.batch, height, width, channels).permute(0, 3, 1, 2)
        else:
            copies = flat.view(self.batch, *self.shape)
        for first in range(share * self.batch, total, of * self.batch):
            places = rows + first
            slots = torch.bucketize(places, ends, right=True)
            add_noise(inputs, keys, slots, places + offsets[slots], self.noise.multiplier, flat)
            yield Batch(copies, slots, min(self.batch, total - first))
