"""The noisy copies of some spans, a batch at a time: which there are depends on the spans and the noise alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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
    """Noisy copies, the slot of the span that each belongs to, and how many there are; reused by the next batch.

    The last rows are the probe's. They, and rows that only fill a batch up, have the slot after the last span's.
    """

    copies: Tensor
    slots: Tensor
    count: int


@dataclass(frozen=True, eq=False)
class Share:
    """One worker's part of the copies of some spans.

    Attributes:
        spans: each with the slot in which it is counted.
        nobody: the slot of rows that are not counted.
        batch: rows of every batch.
        probe: a few rows, the same in every batch.
    """

    spans: Sequence[tuple[int, NoiseSpan]]
    nobody: int
    noise: Noise
    batch: int
    probe: Tensor
    device: torch.device

    @property
    def room(self) -> int:
        """Copies in a batch."""
        return self.batch - len(self.probe)

    @property
    def shape(self) -> torch.Size:
        """Of one input."""
        return self.spans[0][1].x.shape


Drawing = Callable[[Share], Iterator[Batch]]


def split(spans: Sequence[NoiseSpan], workers: int) -> list[list[tuple[int, NoiseSpan]]]:
    """The spans with their slots, cut so that each worker gets as many copies."""
    total = sum(span.copies for span in spans)
    shares: list[list[tuple[int, NoiseSpan]]] = []
    for begin, end in pairwise(total * worker // workers for worker in range(workers + 1)):
        share, before = [], 0
        for slot, span in enumerate(spans):
            start, stop = max(begin - before, 0), min(end - before, span.copies)
            if start < stop:
                share.append((slot, replace(span, start=span.start + start, stop=span.start + stop)))
            before += span.copies
        shares.append(share)
    return shares


def batches_for(noise: Noise, device: torch.device) -> Drawing:
    """How this noise is drawn on this device: by counter where there is a kernel for it, else in blocks on the host."""
    return counter_batches if isinstance(noise, Gaussian) and device.type == "cuda" else block_batches


def noise_name(noise: Noise, device: torch.device) -> str:
    """Noise and generator; recorded, since another generator would draw other copies."""
    by_counter = batches_for(noise, device) is counter_batches
    return f"{noise.kind}/{counter.GENERATOR if by_counter else blocks.GENERATOR}"


def block_batches(share: Share) -> Iterator[Batch]:
    """Blocks of noise, each from a stream of its own, which NumPy draws on the host: any noise, any device.

    A block that two workers need a part of is drawn by both.
    """
    copies = torch.zeros(share.batch, *share.shape, dtype=torch.float32)
    slots = torch.full((share.batch,), share.nobody)
    filled = 0

    def batch() -> Batch:
        copies[share.room :] = share.probe  # a module may write into its batch
        return Batch(copies.to(share.device), slots.to(share.device), filled)

    for slot, span in share.spans:
        for standard in _standard_rows(span, share.noise):
            taken = 0
            while taken < len(standard):
                rows = standard[taken : taken + share.room - filled]
                end = filled + len(rows)
                torch.add(span.x, rows, alpha=share.noise.multiplier, out=copies[filled:end])
                slots[filled:end] = slot
                taken, filled = taken + len(rows), end
                if filled == share.room:
                    yield batch()
                    filled = 0
    if filled:
        slots[filled:] = share.nobody
        copies[filled : share.room] = copies[:1]
        yield batch()


def _standard_rows(span: NoiseSpan, noise: Noise) -> Iterator[Tensor]:
    """The standard noise of a span's copies, block by block."""
    rows = block_rows(span.x.shape)
    for number in range(span.start // rows, -(-span.stop // rows)):
        block = BlockKey(span.seed, span.index, span.counting.stage, number)
        first, last = max(span.start - number * rows, 0), min(span.stop - number * rows, rows)
        yield standard_block(noise, block, span.x.shape, last)[first:]


def counter_batches(share: Share) -> Iterator[Batch]:
    """Every number from its own counter, so that a GPU makes a batch in one pass where it is needed.

    Nothing travels but the inputs, once: which copy of which input a row is, is worked out on the device. Images are
    kept with their channels last, the order in which convolutions read them; noise is counted in that order.
    """
    device, spans, image = share.device, [span for _, span in share.spans], len(share.shape) == 3
    # Together by NumPy: the host's threads would take longer to wake than to copy.
    inputs = torch.from_numpy(np.stack([span.x.numpy() for span in spans])).to(device)
    inputs = (inputs.permute(0, 2, 3, 1) if image else inputs).reshape(len(spans), -1)
    inputs = torch.cat((inputs, inputs[:1]))
    words = [key_words(span.seed, span.index, span.counting.stage) for span in spans]
    keys = torch.tensor([*words, [0, 0, 0]], device=device)
    ends = torch.tensor([span.copies for span in spans]).cumsum(0)
    total = int(ends[-1])
    starts = [span.stop - int(end) for span, end in zip(spans, ends, strict=True)]
    offsets = torch.tensor([*starts, 0], device=device)
    slots = torch.tensor([*(slot for slot, _ in share.spans), share.nobody], device=device)
    ends, rows = ends.to(device), torch.arange(share.batch, device=device)
    flat = torch.empty(share.batch, inputs.shape[1], dtype=torch.float32, device=device)
    if image:
        channels, height, width = share.shape
        copies = flat.view(share.batch, height, width, channels).permute(0, 3, 1, 2)
    else:
        copies = flat.view(share.batch, *share.shape)
    probe = share.probe.to(device)
    for start in range(0, total, share.room):
        count = min(share.room, total - start)
        places = rows + start
        number = torch.where(rows < count, torch.bucketize(places, ends, right=True), len(spans))
        add_noise(inputs, keys, number, places + offsets[number], share.noise.multiplier, flat)
        copies[share.room :] = probe
        yield Batch(copies, slots[number], count)
