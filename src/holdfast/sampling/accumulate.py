"""What a pass over noisy copies adds up, as whole numbers on the device, so that order and grouping cannot matter."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import SCORE_UNIT, Evidence, Selection
from holdfast.errors import ModelError, UnsteadyModel
from holdfast.measures import SUM_TOLERANCE, Measure
from holdfast.noise import Noise
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from holdfast.scores import ScoreHistogram
from holdfast.scores.grid import Grid

CLASS_BINS = 4_096
_ALL = 1e-3
_ROWS = 8


class Accumulator:
    """Adds up batches of several spans at once, each as its span asks; accumulators of the same spans merge.

    Everything is added in place: a tensor that is replaced on a GPU's side stream would be given away while it is read.

    Requires:
        Where a span's target is a selection span, one worker sees all copies, selection first: so a class is chosen
        before any copy is counted for it. A batch may hold both kinds; slots tell them apart.
    """

    def __init__(self, spans: Sequence[NoiseSpan], measures: Sequence[Measure], device: torch.device) -> None:
        self._spans = spans
        self._worst = torch.zeros((), device=device)
        self._selecting = sum(span.copies for span in spans if span.counting is Counting.SELECTION)
        self._seen = 0
        self._parts: list[tuple[_Counters, Tensor]] = []
        for counting in Counting:
            slots = [slot for slot, span in enumerate(spans) if span.counting is counting]
            if slots:
                # Where each span's counters are; what the others count goes where the last slot's goes: nowhere.
                where = torch.full((len(spans) + 1,), len(slots))
                where[slots] = torch.arange(len(slots))
                part = _KINDS[counting]([spans[slot] for slot in slots], measures, device)
                self._parts.append((part, where.to(device)))

    def add(self, probabilities: Tensor, slots: Tensor, count: int) -> None:
        """Count a batch: one row of class probabilities and one span's slot each; the slot after the last is thrown away.

        ``count`` is how many rows are copies of a span.
        """
        # The largest deviation of a row from being probabilities; NaN stays NaN. The device is asked only at the end.
        # Negative entries are left out of the sum: many small ones would hide that two classes together exceed one.
        sums = (probabilities.clamp(min=0).sum(1) - 1).abs().amax()
        outside = (probabilities - probabilities.clamp(0, 1)).abs().amax()
        torch.maximum(self._worst, torch.maximum(sums, outside), out=self._worst)
        for part, where in self._parts:
            if not isinstance(part, _Sums):
                part.add(probabilities, where[slots])
            elif self._seen < self._selecting:
                part.add(probabilities, where[slots])
                for other, _ in self._parts:
                    other.follow(part)
        self._seen += count

    def merge(self, other: Self) -> None:
        """Take in what another worker counted; on the host, which waits until a GPU's counts are there."""
        self._worst = torch.maximum(self._worst.cpu(), other._worst.cpu())
        for (mine, _), (theirs, _) in zip(self._parts, other._parts, strict=True):
            mine.merge(theirs)

    def results(self, model: str, noise: Noise) -> list[Counts]:
        """One for each span; refused if there were rows that are not probabilities."""
        worst = float(self._worst)
        if not worst <= SUM_TOLERANCE / 2:  # sums in float32 have errors of their own: claims allow for twice as much
            raise ModelError(
                f"the model {model} returned NaN, infinity, or rows that are not probabilities for some noisy copies "
                f"(off by {worst:.3g}); no certificate was made. Check it on noisy inputs"
            )
        found = {id(span): counts for part, _ in self._parts for span, counts in part.results(noise)}
        return [found[id(span)] for span in self._spans]


class _Counters(ABC):
    """The counters of spans that ask for the same; ``counts`` begin with a row for each span, and one that is thrown away."""

    def __init__(self, spans: Sequence[NoiseSpan], measures: Sequence[Measure], device: torch.device) -> None:
        self._spans = spans
        self._measures = measures
        known = [span.target if isinstance(span.target, int) else 0 for span in spans]
        self._targets = torch.tensor([*known, 0], device=device)
        self.counts: list[Tensor] = []

    @abstractmethod
    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """Count a batch."""

    @abstractmethod
    def results(self, noise: Noise) -> Iterator[tuple[NoiseSpan, Counts]]:
        """Each span with its counts."""

    def follow(self, sums: "_Sums") -> None:
        """Count, from now on, for the classes that are chosen by then."""
        following = [slot for slot, span in enumerate(self._spans) if isinstance(span.target, NoiseSpan)]
        if following:
            choosers = {id(span): slot for slot, span in enumerate(sums._spans)}
            chosen = sums.leaders()[[choosers[id(self._spans[slot].target)] for slot in following]]
            self._targets.index_copy_(0, torch.tensor(following, device=chosen.device), chosen)

    def merge(self, other: Self) -> None:
        """Counts add; by NumPy, since waking torch's threads would take longer. Who had nothing to count has none."""
        if self.counts and other.counts:
            pairs = zip(self.counts, other.counts, strict=True)
            self.counts = [torch.from_numpy(mine.cpu().numpy() + theirs.cpu().numpy()) for mine, theirs in pairs]
        else:
            self.counts = self.counts or other.counts

    def _rows(self) -> list[NDArray[Any]]:
        """The counters of all spans on the host, without the row that is thrown away."""
        return [each.cpu().numpy().reshape(len(self._spans) + 1, -1)[:-1] for each in self.counts]


class _Sums(_Counters):
    """Sums of every class's score."""

    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """As whole numbers of 2^-40."""
        if not self.counts:
            self.counts = [torch.zeros_like(probabilities[:1], dtype=torch.int64).repeat(len(self._spans) + 1, 1)]
        self.counts[0].index_add_(0, slots, (probabilities.clamp(min=0).double() * SCORE_UNIT).round().long())

    def leaders(self) -> Tensor:
        """Each span's class with the largest sum so far, the first if several are equal; without asking the device."""
        (sums,) = self.counts
        classes = torch.arange(sums.shape[1], device=sums.device)
        return torch.where(sums == sums.amax(1, keepdim=True), classes, len(classes)).amin(1)

    def results(self, noise: Noise) -> Iterator[tuple[NoiseSpan, Counts]]:  # noqa: ARG002
        """A selection each."""
        (sums,) = self._rows()
        for span, row in zip(self._spans, sums, strict=True):
            if not abs(row.sum() / SCORE_UNIT / span.copies - 1) < _ALL:
                raise UnsteadyModel(
                    f"the scores of {span.copies:,} copies must sum to their number, got {row.sum() / SCORE_UNIT:,.1f}: not every "
                    f"copy was counted; certify again"
                )
            yield span, Selection(span.copies, row)


class _Votes(_Counters):
    """Each class's votes: a row's whole weight goes to the class with the largest probability, the first if several are equal."""

    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """One vote a row."""
        classes = probabilities.shape[1]
        if not self.counts:
            size = (len(self._spans) + 1) * classes
            self.counts = [torch.zeros(size, dtype=torch.int64, device=probabilities.device)]
        where = slots * classes + probabilities.argmax(1)
        self.counts[0].index_add_(0, where, torch.ones_like(where))

    def results(self, noise: Noise) -> Iterator[tuple[NoiseSpan, Counts]]:  # noqa: ARG002
        """A selection each, as if every answer were certain."""
        (votes,) = self._rows()
        for span, row in zip(self._spans, votes, strict=True):
            yield span, Selection(span.copies, row * SCORE_UNIT)


def values_of(measure: Measure, probabilities: Tensor, targets: Tensor) -> Tensor:
    """The measure of each row, in the shape that it must have."""
    values = measure(probabilities, targets)
    if not isinstance(values, Tensor) or values.shape != targets.shape:
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ModelError(
            f"the measure {measure.name} must return a tensor with one number for each row, {tuple(targets.shape)}, got {got}"
        )
    return values


def check_measures(measures: Sequence[Measure], classes: int, device: torch.device) -> None:
    """Refuse a measure of a row that changes with the other rows: samples of it would not be independent."""
    sure = torch.logspace(-2, 2, _ROWS)[:, None]  # from no opinion to certainty
    logits = sure * torch.randn(_ROWS, classes, generator=torch.Generator().manual_seed(0))
    probabilities, targets = logits.softmax(1).to(device), torch.arange(_ROWS, device=device) % classes
    for measure in measures:
        low, high = measure.info.support
        together = values_of(measure, probabilities, targets)
        pairs = [values_of(measure, probabilities[[k, k]], targets[[k, k]])[:1] for k in range(_ROWS)]
        if not torch.allclose(together, torch.cat(pairs), rtol=0.0, atol=SUM_TOLERANCE * (high - low), equal_nan=True):
            raise ModelError(
                f"the measure {measure.name} gives a row another number beside itself than among others, so noisy copies would not be "
                f"independent samples; compute each row's from that row only, such as probabilities.amax(1)"
            )


class _Scores(_Counters):
    """Votes for the target class, and every measure's histogram, in one pass."""

    def __init__(self, spans: Sequence[NoiseSpan], measures: Sequence[Measure], device: torch.device) -> None:
        super().__init__(spans, measures, device)
        self._grids = [Grid(measure.support) for measure in measures]
        self._edges = [_float32_edges(grid, device) for grid in self._grids]
        slots = len(spans) + 1
        sizes = [slots, *(slots * grid.size for grid in self._grids)]
        self.counts = [torch.zeros(size, dtype=torch.int64, device=device) for size in sizes]
        self.worst = [torch.zeros((), device=device) for _ in measures]

    def merge(self, other: Self) -> None:
        """The farthest of both, too."""
        super().merge(other)
        self.worst = [torch.maximum(a.cpu(), b.cpu()) for a, b in zip(self.worst, other.worst, strict=True)]

    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """A vote is for the class with the largest probability."""
        targets = self._targets[slots]
        votes, *histograms = self.counts
        votes.index_add_(0, slots, (probabilities.argmax(1) == targets).long())
        for number, (measure, grid, edges) in enumerate(zip(self._measures, self._grids, self._edges, strict=True)):
            values = values_of(measure, probabilities, targets)
            outside = (values - values.clamp(*grid.support)).abs().amax()
            torch.maximum(self.worst[number], outside, out=self.worst[number])
            where = slots * grid.size + _bins(values, grid, edges)
            histograms[number].index_add_(0, where, torch.ones_like(where))

    def results(self, noise: Noise) -> Iterator[tuple[NoiseSpan, Counts]]:
        """Evidence each."""
        votes, *histograms = self._rows()
        infos = [measure.info for measure in self._measures]
        for info, worst in zip(infos, self.worst, strict=True):
            low, high = info.support
            if not float(worst) <= SUM_TOLERANCE * (high - low):
                raise ModelError(
                    f"the measure {info.name} must give numbers in [{low:g}, {high:g}], got NaN or one that is {float(worst):.3g} "
                    f"outside for some noisy copies; no certificate was made. Mend the measure, or its support"
                )
        for slot, span in enumerate(self._spans):
            counted = {
                info: ScoreHistogram(rows[slot], support=info.support, noise=noise)
                for info, rows in zip(infos, histograms, strict=True)
            }
            yield span, Evidence(span.copies, int(votes[slot, 0]), counted)


class _Classes(_Counters):
    """Scores of every class, and the target's lead over each, in one pass."""

    def __init__(self, spans: Sequence[NoiseSpan], measures: Sequence[Measure], device: torch.device) -> None:
        super().__init__(spans, measures, device)
        self._grids = Grid((0.0, 1.0), CLASS_BINS), Grid((-1.0, 1.0), CLASS_BINS)
        self._edges = [_float32_edges(grid, device) for grid in self._grids]

    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """Two histograms for each class."""
        classes = probabilities.shape[1]
        if not self.counts:
            size = (len(self._spans) + 1) * classes * (CLASS_BINS + 1)
            self.counts = [torch.zeros(size, dtype=torch.int64, device=probabilities.device) for _ in self._grids]
        own = probabilities.gather(1, self._targets[slots][:, None])
        cell = slots[:, None] * classes + torch.arange(classes, device=slots.device)
        for grid, edges, counts, values in zip(
            self._grids, self._edges, self.counts, (probabilities, own - probabilities), strict=True
        ):
            where = (cell * (CLASS_BINS + 1) + _bins(values.contiguous(), grid, edges)).flatten()
            counts.index_add_(0, where, torch.ones_like(where))

    def results(self, noise: Noise) -> Iterator[tuple[NoiseSpan, Counts]]:
        """Class counts each."""
        scores, gaps = (rows.reshape(len(rows), -1, CLASS_BINS + 1) for rows in self._rows())
        for slot, span in enumerate(self._spans):
            histograms = (
                tuple(ScoreHistogram(np.asarray(row), support=grid.support, noise=noise) for row in rows[slot])
                for grid, rows in zip(self._grids, (scores, gaps), strict=True)
            )
            yield span, ClassCounts(span.copies, *histograms)


@lru_cache(maxsize=32)
def _float32_edges(grid: Grid, device: torch.device) -> Tensor:
    """Rounded up, where they are no float32 numbers: a score that reaches one reaches the edge itself."""
    near = grid.edges.astype(np.float32)
    near = np.where(near < grid.edges, np.nextafter(near, np.float32(np.inf)), near)
    return torch.from_numpy(near).to(device)


def _bins(values: Tensor, grid: Grid, edges: Tensor) -> Tensor:
    """The counter of each value: the last edge that is not above it."""
    inside = values.clamp(*grid.support)
    # By NumPy on the host, which has no bfloat16: torch would wake its threads, which takes longer where they have other work.
    if inside.device.type == "cpu" and inside.dtype is not torch.bfloat16:
        found = torch.from_numpy(np.searchsorted(edges.numpy(), inside.numpy(), side="right"))
    else:
        found = torch.bucketize(inside, edges, right=True)
    return found.sub_(1).clamp_(0, grid.bins)


_KINDS: dict[Counting, type[_Counters]] = {
    Counting.SELECTION: _Sums,
    Counting.VOTES: _Votes,
    Counting.EVIDENCE: _Scores,
    Counting.CLASSES: _Classes,
}
