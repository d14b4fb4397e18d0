"""Tallies: what a pass over noisy copies adds up, as whole numbers on the device, so that order and grouping cannot matter."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import SCORE_UNIT, Evidence, Selection
from holdfast.errors import ModelError
from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models.model import TOLERANCE
from holdfast.noise import Noise
from holdfast.sampling.engine import Task
from holdfast.scores import ScoreHistogram
from holdfast.scores.grid import Grid

CLASS_BINS = 4_096


class Tally(ABC):
    """Adds up batches of several tasks at once; tallies of the same tasks merge."""

    def __init__(self) -> None:
        self._worst: Tensor | None = None

    def add(self, probabilities: Tensor, slots: Tensor) -> None:
        """Count a batch: one row of class probabilities and one task's slot each; the slot after the last is thrown away."""
        # The largest deviation of a row from being probabilities; NaN stays NaN. The device is asked only at the end.
        # Negative entries are left out of the sum: many small ones would hide that two classes together exceed one.
        sums = (probabilities.clamp(min=0).sum(1) - 1).abs().amax()
        outside = (probabilities - probabilities.clamp(0, 1)).abs().amax()
        self._notice(torch.maximum(sums, outside))
        self._count(probabilities, slots)

    def merge(self, other: Self) -> None:
        """Take in what another worker counted; on the host, which waits until a GPU's counts are there."""
        if self._worst is not None:
            self._worst = self._worst.cpu()
        if other._worst is not None:
            self._notice(other._worst.cpu())
        self._take(other)

    def check(self, model: str) -> None:
        """Refuse to make anything of a sample with bad rows in it."""
        if self._worst is None or float(self._worst) <= TOLERANCE:
            return
        raise ModelError(
            f"the model {model} returned NaN, infinity, or rows that are not probabilities for some noisy copies "
            f"(off by {float(self._worst):.3g}); no certificate was made. Check it on noisy inputs"
        )

    def _notice(self, worst: Tensor) -> None:
        self._worst = worst if self._worst is None else torch.maximum(self._worst, worst)

    @abstractmethod
    def _count(self, probabilities: Tensor, slots: Tensor) -> None: ...

    @abstractmethod
    def _take(self, other: Self) -> None: ...


class SelectionTally(Tally):
    """Sums of every class's score."""

    def __init__(self, tasks: Sequence[Task], device: torch.device) -> None:
        super().__init__()
        self._tasks = tasks
        self._sums = torch.zeros(len(tasks) + 1, 0, dtype=torch.int64, device=device)

    def _count(self, probabilities: Tensor, slots: Tensor) -> None:
        if self._sums.shape[1] == 0:
            self._sums = self._sums.new_zeros(len(self._tasks) + 1, probabilities.shape[1])
        self._sums.index_add_(0, slots, (probabilities.clamp(min=0).double() * SCORE_UNIT).round().long())

    def _take(self, other: Self) -> None:
        self._sums = self._sums.cpu() + other._sums.cpu()

    def leaders(self) -> Tensor:
        """Each slot's class with the largest sum so far, the first if several are equal; without asking the device."""
        classes = torch.arange(self._sums.shape[1], device=self._sums.device)
        best = self._sums.amax(1, keepdim=True)
        return torch.where(self._sums == best, classes, len(classes)).amin(1)

    def selections(self) -> list[Selection]:
        """One result per task."""
        rows = self._sums[:-1].cpu().numpy()
        return [Selection(task.stop - task.start, row) for task, row in zip(self._tasks, rows, strict=True)]


class EstimationTally(Tally):
    """Votes, scores and margins of each task's target class, in one pass."""

    def __init__(
        self, tasks: Sequence[Task], device: torch.device, *, measures: Sequence[Measure] = DEFAULT_MEASURES
    ) -> None:
        super().__init__()
        self._tasks = tasks
        self._targets = torch.tensor([*(task.target for task in tasks), 0], device=device)
        self._votes = torch.zeros(len(tasks) + 1, dtype=torch.int64, device=device)
        self._counters = [_Counters(measure, len(tasks) + 1, device) for measure in measures]

    def aim(self, targets: Tensor) -> None:
        """Count for other classes from now on; the last target is that of the slot after the last."""
        self._targets = targets

    def _count(self, probabilities: Tensor, slots: Tensor) -> None:
        targets = self._targets[slots]
        self._votes.index_add_(0, slots, (probabilities.argmax(1) == targets).long())
        for counters in self._counters:
            counters.add(probabilities, targets, slots)

    def _take(self, other: Self) -> None:
        self._votes = self._votes.cpu() + other._votes.cpu()
        for mine, theirs in zip(self._counters, other._counters, strict=True):
            mine.counts = mine.counts.cpu() + theirs.counts.cpu()

    def evidence(self, noise: Noise) -> list[Evidence]:
        """One result per task."""
        counted = {counters.info: counters.histograms(noise) for counters in self._counters}
        return [
            Evidence(task.stop - task.start, won, {info: rows[slot] for info, rows in counted.items()})
            for slot, (task, won) in enumerate(zip(self._tasks, self._votes[:-1].cpu().tolist(), strict=True))
        ]


class AnswerTally(Tally):
    """Chooses each input's class and counts it, in one pass: the first half of the tasks selects, the second estimates.

    Requires:
        Copies come in the tasks' order, so that a class is chosen before any copy is counted for it. A batch may hold
        both kinds; slots tell them apart.
    """

    def __init__(self, tasks: Sequence[Task], device: torch.device) -> None:
        super().__init__()
        self._inputs = len(tasks) // 2
        self._selecting = sum(task.stop - task.start for task in tasks[: self._inputs])
        self._selection = SelectionTally(tasks[: self._inputs], device)
        self._estimation = EstimationTally(tasks[self._inputs :], device)
        self._seen = 0

    def _count(self, probabilities: Tensor, slots: Tensor) -> None:
        if self._seen < self._selecting:
            self._selection._count(probabilities, slots.clamp(max=self._inputs))
            self._estimation.aim(self._selection.leaders())
        self._seen += len(slots)
        ours = torch.where(slots < self._inputs, self._inputs, slots - self._inputs)
        self._estimation._count(probabilities, ours)

    def _take(self, other: Self) -> None:
        raise NotImplementedError("one worker alone knows the classes in time")

    def selections(self) -> list[Selection]:
        """One result per input."""
        return self._selection.selections()

    def evidence(self, noise: Noise) -> list[Evidence]:
        """One result per input."""
        return self._estimation.evidence(noise)


class ClassTally(Tally):
    """Scores of every class, and the target's lead over each, in one pass."""

    def __init__(self, tasks: Sequence[Task], device: torch.device) -> None:
        super().__init__()
        self._tasks = tasks
        self._targets = torch.tensor([*(task.target for task in tasks), 0], device=device)
        self._grids = Grid((0.0, 1.0), CLASS_BINS), Grid((-1.0, 1.0), CLASS_BINS)
        self._edges = [torch.tensor(grid.edges, dtype=torch.float32, device=device) for grid in self._grids]
        self._counts = [torch.zeros(0, dtype=torch.int64, device=device) for _ in self._grids]
        self._classes = 0

    def _count(self, probabilities: Tensor, slots: Tensor) -> None:
        if self._classes == 0:
            self._classes = probabilities.shape[1]
            size = (len(self._tasks) + 1) * self._classes * (CLASS_BINS + 1)
            self._counts = [counts.new_zeros(size) for counts in self._counts]
        own = probabilities.gather(1, self._targets[slots][:, None])
        cell = slots[:, None] * self._classes + torch.arange(self._classes, device=slots.device)
        for grid, edges, counts, values in zip(
            self._grids, self._edges, self._counts, (probabilities, own - probabilities), strict=True
        ):
            low, high = grid.support
            bins = (
                torch.bucketize(values.clamp(low, high).contiguous(), edges, right=True).sub_(1).clamp_(0, CLASS_BINS)
            )
            where = (cell * (CLASS_BINS + 1) + bins).flatten()
            counts.index_add_(0, where, torch.ones_like(where))

    def _take(self, other: Self) -> None:
        self._classes = max(self._classes, other._classes)
        self._counts = [mine.cpu() + theirs.cpu() for mine, theirs in zip(self._counts, other._counts, strict=True)]

    def class_counts(self, noise: Noise) -> list[ClassCounts]:
        """One result per task."""
        shape = (len(self._tasks) + 1, self._classes, CLASS_BINS + 1)
        scores, gaps = (counts.cpu().numpy().reshape(shape) for counts in self._counts)
        return [
            ClassCounts(
                task.stop - task.start,
                tuple(ScoreHistogram(row, support=(0.0, 1.0), noise=noise) for row in scores[slot]),
                tuple(ScoreHistogram(row, support=(-1.0, 1.0), noise=noise) for row in gaps[slot]),
            )
            for slot, task in enumerate(self._tasks)
        ]


class _Counters:
    """One measure's histograms, one per slot."""

    def __init__(self, measure: Measure, slots: int, device: torch.device) -> None:
        self._measure, self.info = measure, measure.info
        self._grid = Grid(measure.support)
        self._edges = torch.tensor(self._grid.edges, dtype=torch.float32, device=device)
        self.counts = torch.zeros(slots * self._grid.size, dtype=torch.int64, device=device)

    def add(self, probabilities: Tensor, targets: Tensor, slots: Tensor) -> None:
        """Count a batch."""
        a, b = self._measure.support
        scores = self._measure(probabilities, targets).clamp(a, b)
        bins = torch.bucketize(scores, self._edges, right=True).sub_(1).clamp_(0, self._grid.bins)
        where = slots * self._grid.size + bins
        self.counts.index_add_(0, where, torch.ones_like(where))

    def histograms(self, noise: Noise) -> list[ScoreHistogram]:
        """One histogram per task: the last slot is thrown away."""
        rows = self.counts.cpu().numpy().reshape(-1, self._grid.size)[:-1]
        return [ScoreHistogram(row, support=self._measure.support, noise=noise) for row in rows]
