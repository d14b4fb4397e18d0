"""Spans of noise and a sampler for them, as tests use them."""

from dataclasses import replace

import torch
from torch import Tensor

from holdfast.certificates import Evidence, Selection
from holdfast.measures import DEFAULT_MEASURES
from holdfast.models import Model, TorchModel
from holdfast.noise import BYTE, Gaussian, Noise
from holdfast.sampling.batches import Drawing, block_batches, counter_batches
from holdfast.sampling.engine import Workload
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.span import Counting, NoiseSpan
from networks import images, small_net

EVIDENCE, SELECTION, CLASSES = Counting.EVIDENCE, Counting.SELECTION, Counting.CLASSES


def sampler(
    model: Model | None = None,
    noise: Noise | None = None,
    *,
    batch: int | None = 64,
    copies: int = 1_000,
    x: Tensor | None = None,
    draw: Drawing | None = None,
) -> LocalSampler:
    like = torch.from_numpy(images(1)[0]) if x is None else x
    known = TorchModel(small_net()) if model is None else model
    step = 0.0 if draw in (block_batches, counter_batches) else BYTE
    work = Workload(noise or Gaussian(0.3), step, DEFAULT_MEASURES, like, copies, batch)
    return LocalSampler(known, work, draw=draw)


def span(x: Tensor, start: int, stop: int, target: int = 0, *, index: int = 0, seed: int = 5) -> NoiseSpan:
    """Estimation copies."""
    return NoiseSpan(x, seed, index, EVIDENCE, start, stop, target)


def choosing(each: NoiseSpan, n0: int) -> NoiseSpan:
    """The selection copies of the same input."""
    return replace(each, counting=SELECTION, start=0, stop=n0)


def evidence_of_spans(found: LocalSampler, *spans: NoiseSpan) -> list[Evidence]:
    counts = found.count(spans)
    assert all(isinstance(each, Evidence) for each in counts)
    return counts  # type: ignore[return-value]


def selected(found: LocalSampler, each: NoiseSpan) -> Selection:
    (counts,) = found.count([each])
    assert isinstance(counts, Selection)
    return counts
