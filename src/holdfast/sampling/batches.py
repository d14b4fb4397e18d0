"""All noisy copies of some spans, a batch at a time, for one worker or shared out among several."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.noise import Gaussian, Noise
from holdfast.noise.drawing import blocks, counter
from holdfast.noise.drawing.blocks import BlockKey, block_rows, standard_block
from holdfast.noise.drawing.counter import add_noise, key_words
from holdfast.sampling.span import NoiseSpan


@dataclass(frozen=True, eq=False)
class Batch:
    """Noisy copies, the span that each belongs to, and how many count.

    A worker's first batch begins with the probe's rows, and its last one ends with them. They, and copies that only fill a
    batch up, have the slot after the last span's.
    """

    copies: Tensor
    slots: Tensor
    count: int
    first: bool
    last: bool


@dataclass(frozen=True, eq=False)
class NoisyBatches(ABC):
    """The noisy copies of ``spans``: which there are depends on the spans and the noise alone.

    Attributes:
        probe: a few rows, at most half a batch, that every worker is asked first and last.
    """

    spans: Sequence[NoiseSpan]
    noise: Noise
    batch: int
    probe: Tensor

    @abstractmethod
    def of_worker(self, worker: int, workers: int, device: torch.device) -> Iterator[Batch]:
        """One worker's share of all copies, in batches of ``batch`` rows; a batch's tensors are reused by the next."""

    @property
    @abstractmethod
    def shares(self) -> int:
        """How many workers could have something to do."""

    @property
    def shape(self) -> torch.Size:
        """Of one input."""
        return self.spans[0].x.shape


def batches_for(noise: Noise, device: torch.device) -> type[NoisyBatches]:
    """How this noise is drawn on this device: by counter where there is a kernel for it, else in blocks on the host."""
    return CounterBatches if isinstance(noise, Gaussian) and device.type == "cuda" else BlockBatches


def noise_name(noise: Noise, device: torch.device) -> str:
    """Noise and generator; recorded, since another generator would draw other copies."""
    by_counter = batches_for(noise, device) is CounterBatches
    return f"{noise.kind}/{counter.GENERATOR if by_counter else blocks.GENERATOR}"


class _Piece(NamedTuple):
    """Copies ``first`` to ``last`` of a block, for the span in ``slot``."""

    slot: int
    block: BlockKey
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class BlockBatches(NoisyBatches):
    """Blocks of noise, each from a stream of its own, which NumPy draws on the host: any noise, any device."""

    def _blocks(self) -> Iterator[tuple[int, BlockKey, int, int]]:
        """The span's slot, the block, and from which to which of its rows the span needs."""
        rows = block_rows(self.shape)
        for slot, span in enumerate(self.spans):
            for number in range(span.start // rows, -(-span.stop // rows)):
                block = BlockKey(span.seed, span.index, span.counting.stage, number)
                yield slot, block, max(span.start - number * rows, 0), min(span.stop - number * rows, rows)

    def _pieces(self) -> Iterator[_Piece]:
        """Blocks cut into a few rows; one at a time, however many there are."""
        for slot, block, begin, end in self._blocks():
            for first in range(begin, end, self._rows):
                yield _Piece(slot, block, first, min(first + self._rows, end))

    @property
    def _rows(self) -> int:
        """Of a piece: so few that workers get nearly the same."""
        return max(1, self.batch // 4)

    @property
    def shares(self) -> int:
        """A piece is run by one worker."""
        return sum(-(-(end - begin) // self._rows) for _, _, begin, end in self._blocks())

    def of_worker(self, worker: int, workers: int, device: torch.device) -> Iterator[Batch]:
        """A stretch of all copies; a block on the border of two stretches is drawn by both workers."""
        count = self.shares
        pieces = islice(self._pieces(), count * worker // workers, count * (worker + 1) // workers)
        copies = torch.zeros(self.batch, *self.shape)
        slots = torch.full((self.batch,), len(self.spans))
        shown = filled = len(self.probe)
        copies[:shown] = self.probe
        first = True

        def batch(*, last: bool = False) -> Batch:
            return Batch(copies.to(device), slots.to(device), filled - shown * first, first, last)

        for drawn, group in groupby(pieces, key=lambda piece: piece.block):
            of_block = list(group)
            block = standard_block(self.noise, drawn, self.shape, max(piece.last for piece in of_block))
            for piece in of_block:
                x = self.spans[piece.slot].x
                taken = piece.first
                while taken < piece.last:
                    rows = min(piece.last - taken, self.batch - filled)
                    part = copies[filled : filled + rows]
                    torch.add(x, block[taken : taken + rows], alpha=self.noise.multiplier, out=part)
                    slots[filled : filled + rows] = piece.slot
                    taken += rows
                    filled += rows
                    if filled == self.batch:
                        yield batch()
                        filled, first = 0, False
        room = self.batch - shown
        for last in (False, True) if filled > room else (True,):
            slots[filled:] = len(self.spans)
            copies[filled:] = copies[:1]
            if last:
                copies[room:] = self.probe
            yield batch(last=last)
            filled, first = 0, False


@dataclass(frozen=True, eq=False)
class CounterBatches(NoisyBatches):
    """Every number from its own counter, so that a GPU makes a batch in one pass where it is needed.

    Nothing travels but the inputs, once: which copy of which input a row is, is worked out on the device. Images are
    kept with their channels last, the order in which convolutions read them; noise is counted in that order.
    """

    @property
    def _total(self) -> int:
        return sum(span.copies for span in self.spans)

    @property
    def shares(self) -> int:
        """A batch is made by one worker."""
        return -(-self._total // self.batch)

    def of_worker(self, worker: int, workers: int, device: torch.device) -> Iterator[Batch]:
        """A stretch of the spans' copies one after the other."""
        image = len(self.shape) == 3
        # Together by NumPy: the host's threads would take longer to wake than to copy.
        inputs = torch.from_numpy(np.stack([span.x.numpy() for span in self.spans])).to(device)
        inputs = (inputs.permute(0, 2, 3, 1) if image else inputs).reshape(len(self.spans), -1)
        inputs = torch.cat((inputs, inputs[:1]))
        words = [key_words(span.seed, span.index, span.counting.stage) for span in self.spans]
        keys = torch.tensor([*words, [0, 0, 0]], device=device)
        ends = torch.tensor([span.copies for span in self.spans]).cumsum(0)
        starts = [span.stop - int(end) for span, end in zip(self.spans, ends, strict=True)]
        offsets = torch.tensor([*starts, 0], device=device)
        total, ends = self._total, ends.to(device)
        rows = torch.arange(self.batch, device=device)
        flat = torch.empty(self.batch, inputs.shape[1], device=device)
        if image:
            channels, height, width = self.shape
            copies = flat.view(self.batch, height, width, channels).permute(0, 3, 1, 2)
        else:
            copies = flat.view(self.batch, *self.shape)
        probe = self.probe.to(device)
        shown, nobody = len(probe), len(self.spans)
        begin, end = total * worker // workers, total * (worker + 1) // workers
        for start in range(begin - shown, end + self.batch, self.batch):
            first, last = start < begin, start + self.batch - shown >= end
            places = rows + start
            inside = (places >= begin) & (places < end)
            slots = torch.where(inside, torch.bucketize(places, ends, right=True), nobody)
            add_noise(inputs, keys, slots, places + offsets[slots], self.noise.multiplier, flat)
            if first:
                copies[:shown] = probe
            if last:
                copies[self.batch - shown :] = probe
            yield Batch(copies, slots, min(start + self.batch, end) - max(start, begin), first, last)
            if last:
                return
