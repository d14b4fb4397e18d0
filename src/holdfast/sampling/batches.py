"""The noisy copies of some spans, a batch at a time: which there are depends on the spans and the noise alone."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.noise import Gaussian, Noise, rounded_table
from holdfast.noise.drawing import blocks, counter, steps
from holdfast.noise.drawing.blocks import BlockKey, block_rows, multiplier, standard_block
from holdfast.noise.drawing.counter import add_noise
from holdfast.noise.drawing.steps import AT_ONCE, draw_steps, has_kernel
from holdfast.sampling.span import NoiseSpan

_DRAWERS = 4


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
        step: of the grid that inputs and noise are on; 0.0 for the float32 noise of Holdfast 0.1.0.
        batch: rows of every batch.
        probe: a few rows, the same in every batch.
        drawers: threads that draw noise for this worker, if it is the only one.
    """

    spans: Sequence[tuple[int, NoiseSpan]]
    nobody: int
    noise: Noise
    step: float
    batch: int
    probe: Tensor
    device: torch.device
    drawers: Executor | None = None

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


def batches_for(noise: Noise, step: float, device: torch.device) -> Drawing:
    """How this noise is drawn on this device: in steps of a grid, or, for step 0, as Holdfast 0.1.0 did."""
    if step > 0:
        return step_batches
    return counter_batches if isinstance(noise, Gaussian) and device.type == "cuda" else block_batches


def noise_name(noise: Noise, step: float, device: torch.device) -> str:
    """Noise and generator; recorded, since another generator would draw other copies."""
    by_counter = batches_for(noise, step, device) is counter_batches
    generator = steps.GENERATOR if step > 0 else counter.GENERATOR if by_counter else blocks.GENERATOR
    return f"{noise.kind}/{generator}"


def keeps_channels_last(draw: Drawing, device: torch.device) -> bool:
    """Whether the copies of images have their channels last in memory."""
    return draw is counter_batches or (draw is step_batches and has_kernel(device))


def copies_of(span: NoiseSpan, noise: Noise, step: float, draw: Drawing) -> Tensor:
    """All copies of a span, on the CPU."""
    share = Share([(0, span)], 1, noise, step, span.copies, span.x[None][:0], torch.device("cpu"))
    return next(draw(share)).copies


def step_batches(share: Share) -> Iterator[Batch]:
    """``step * (K + N)``: whole numbers from counters are added to the input's, and converted once.

    The same numbers on every device. A GPU with Triton makes a batch in one pass; else NumPy draws on the host.
    """
    if not has_kernel(share.device):
        step = np.float32(share.step)
        return _batches_from(
            share,
            lambda span: _levels(span, share),
            lambda _, levels, out: np.multiply(levels, step, out=out.numpy(), dtype=np.float32, casting="same_kind"),
        )
    from holdfast.noise.drawing.steps_cuda import write_copies

    table = rounded_table(share.noise, share.step)
    levels = np.stack([_level(span, share.step).ravel() for _, span in share.spans])
    keys = np.stack([steps.key_words(span.seed, span.index, span.counting.stage) for _, span in share.spans])

    def write(inputs: Tensor, keys: Tensor, slots: Tensor, copies: Tensor, out: Tensor) -> None:
        write_copies(table, inputs, keys, slots, copies, share.step, out)

    return _device_batches(share, levels, keys.view(np.int64), write)


def block_batches(share: Share) -> Iterator[Batch]:
    """Float32 noise in blocks, each from a stream of its own, which NumPy draws on the host.

    A block that two workers need a part of is drawn by both.
    """
    scale = multiplier(share.noise)
    return _batches_from(
        share,
        lambda span: _standard_rows(span, share.noise),
        lambda span, rows, out: torch.add(span.x, rows, alpha=scale, out=out),
    )


def counter_batches(share: Share) -> Iterator[Batch]:
    """Float32 noise, every number from its own counter, so that a GPU makes a batch in one pass where it is needed."""
    scale = multiplier(share.noise)
    inputs = np.stack([_in_order(span.x).ravel() for _, span in share.spans])
    keys = [counter.key_words(span.seed, span.index, span.counting.stage) for _, span in share.spans]

    def write(inputs: Tensor, keys: Tensor, slots: Tensor, copies: Tensor, out: Tensor) -> None:
        add_noise(inputs, keys, slots, copies, scale, out)

    return _device_batches(share, inputs, np.array(keys), write)


def _batches_from(
    share: Share, drawn: Callable[[NoiseSpan], Iterator[Tensor]], write: Callable[[NoiseSpan, Tensor, Tensor], object]
) -> Iterator[Batch]:
    """Batches filled on the host: ``write`` makes copies of what is ``drawn`` for a span, a few rows at a time."""
    copies = torch.zeros(share.batch, *share.shape, dtype=torch.float32)
    slots = torch.full((share.batch,), share.nobody)
    places, filled = slots.numpy(), 0  # NumPy writes a few numbers without giving way to other threads

    def batch() -> Batch:
        copies[share.room :] = share.probe  # a module may write into its batch
        return Batch(copies.to(share.device), slots.to(share.device), filled)

    for slot, span in share.spans:
        for some in drawn(span):
            taken = 0
            while taken < len(some):
                rows = some[taken : taken + share.room - filled]
                end = filled + len(rows)
                write(span, rows, copies[filled:end])
                places[filled:end] = slot
                taken, filled = taken + len(rows), end
                if filled == share.room:
                    yield batch()
                    filled = 0
    if filled:
        places[filled:] = share.nobody
        copies[filled : share.room] = copies[:1]
        yield batch()


def _in_order(x: Tensor) -> NDArray[np.float32]:
    """An input in the order in which noise is counted: an image with its channels last.

    By NumPy: the host's threads would take longer to wake than to copy.
    """
    return np.moveaxis(x.numpy(), 0, -1) if x.ndim == 3 else x.numpy()


def _level(span: NoiseSpan, step: float) -> NDArray[np.int32]:
    """The input in whole numbers of steps, in the order of noise."""
    return np.rint(_in_order(span.x) / np.float64(step)).astype(np.int32, order="C")


def _levels(span: NoiseSpan, share: Share) -> Iterator[Tensor]:
    """A span's copies in whole numbers of steps, a few at a time."""
    table, size, own = rounded_table(share.noise, share.step), span.x.numel(), _level(span, share.step)
    key, few = steps.key_words(span.seed, span.index, span.counting.stage), max(1, AT_ONCE // span.x.numel())

    def drawn(first: int) -> Tensor:
        levels = draw_steps(table, key, first, min(few, span.stop - first), size).reshape(-1, *own.shape)
        levels += own
        return torch.from_numpy(np.moveaxis(levels, -1, 1) if own.ndim == 3 else levels)

    firsts = range(span.start, span.stop, few)
    if share.drawers is None:
        yield from map(drawn, firsts)
        return
    waiting = deque[Future[Tensor]]()
    for first in firsts:
        waiting.append(share.drawers.submit(drawn, first))
        if len(waiting) > _DRAWERS:
            yield waiting.popleft().result()
    for each in waiting:
        yield each.result()


def _standard_rows(span: NoiseSpan, noise: Noise) -> Iterator[Tensor]:
    """The standard noise of a span's copies, block by block."""
    rows = block_rows(span.x.shape)
    for number in range(span.start // rows, -(-span.stop // rows)):
        block = BlockKey(span.seed, span.index, span.counting.stage, number)
        first, last = max(span.start - number * rows, 0), min(span.stop - number * rows, rows)
        yield standard_block(noise, block, span.x.shape, last)[first:]


def _device_batches(
    share: Share,
    inputs: NDArray[Any],
    keys: NDArray[np.int64],
    write: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None],
) -> Iterator[Batch]:
    """Batches written where they are needed: ``write(inputs, keys, slots, copies, out)`` fills one in a single pass.

    Nothing travels but the inputs, once: which copy of which input a row is, is worked out on the device. Images are
    kept with their channels last, the order in which convolutions read them. ``inputs`` and ``out`` have a row each.
    """
    device, spans = share.device, [span for _, span in share.spans]
    known = torch.from_numpy(np.concatenate((inputs, inputs[:1]))).to(device)
    words = torch.from_numpy(np.concatenate((keys, np.zeros_like(keys[:1])))).to(device)
    ends = torch.tensor([span.copies for span in spans]).cumsum(0)
    total = int(ends[-1])
    starts = [span.stop - int(end) for span, end in zip(spans, ends, strict=True)]
    offsets = torch.tensor([*starts, 0], device=device)
    slots = torch.tensor([*(slot for slot, _ in share.spans), share.nobody], device=device)
    ends, rows = ends.to(device), torch.arange(share.batch, device=device)
    flat = torch.empty(share.batch, share.shape.numel(), dtype=torch.float32, device=device)
    if len(share.shape) == 3:
        channels, height, width = share.shape
        copies = flat.view(share.batch, height, width, channels).permute(0, 3, 1, 2)
    else:
        copies = flat.view(share.batch, *share.shape)
    probe = share.probe.to(device)
    for start in range(0, total, share.room):
        count = min(share.room, total - start)
        places = rows + start
        number = torch.where(rows < count, torch.bucketize(places, ends, right=True), len(spans))
        write(known, words, number, places + offsets[number], flat)
        copies[share.room :] = probe
        yield Batch(copies, slots[number], count)
