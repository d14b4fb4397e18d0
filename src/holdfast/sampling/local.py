"""The local engine: one device, batches that span inputs, constant memory."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.evidence import SCORE_UNIT, Evidence, Selection
from holdfast.grid import Grid
from holdfast.measures import Margin, Measure, PredictionScore
from holdfast.models.model import TOLERANCE, Model
from holdfast.noise import BlockKey, Gaussian, Stage
from holdfast.progress import OnDone
from holdfast.sampling.engine import Engine, Task
from holdfast.scores import ScoreHistogram

_LOOKAHEAD = 3


class _Piece(NamedTuple):
    """Where rows of a block go: ``rows`` of them from ``first``, for the task in ``slot``."""

    slot: int
    block: BlockKey
    rows: int


@dataclass(frozen=True, eq=False)
class LocalEngine(Engine):
    """Runs every copy on the model's own device.

    Every forward pass has exactly ``batch`` rows (the last one is padded), so that a network whose rows do not depend on
    how many others there are gives the same answer whatever the batch size.
    """

    model: Model
    noise: Gaussian
    seed: int
    batch: int

    def select(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Selection]:
        """Sum scores as whole numbers, so that the order of batches cannot matter."""
        sums: Tensor | None = None
        health = _Health()
        for copies, slots in self._batches(tasks, Stage.SELECTION):
            probabilities = self.model.probabilities(copies)[: len(slots)]
            health.watch(probabilities)
            if sums is None:
                sums = torch.zeros(len(tasks), probabilities.shape[1], dtype=torch.int64, device=self.model.device)
            sums.index_add_(0, slots, (probabilities.double() * SCORE_UNIT).round().long())
            on_copies(len(slots))
        health.check(self.model)
        assert sums is not None
        return [Selection(task.stop - task.start, row) for task, row in zip(tasks, sums.cpu().numpy(), strict=True)]

    def estimate(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Evidence]:
        """One pass for label, score and margin; only counts are kept."""
        device = self.model.device
        targets = torch.tensor([task.target for task in tasks], device=device)
        votes = torch.zeros(len(tasks), dtype=torch.int64, device=device)
        counters = [_Counters(measure, len(tasks), device) for measure in (PredictionScore(), Margin())]
        health = _Health()
        for copies, slots in self._batches(tasks, Stage.ESTIMATION):
            probabilities = self.model.probabilities(copies)[: len(slots)]
            health.watch(probabilities)
            target = targets[slots]
            votes.index_add_(0, slots, (probabilities.argmax(1) == target).long())
            for counter in counters:
                counter.add(probabilities, target, slots)
            on_copies(len(slots))
        health.check(self.model)
        score, margin = (counter.histograms(self.noise.sigma) for counter in counters)
        return [
            Evidence(task.stop - task.start, int(won), score[slot], margin[slot])
            for slot, (task, won) in enumerate(zip(tasks, votes.cpu().tolist(), strict=True))
        ]

    def _batches(self, tasks: Sequence[Task], stage: Stage) -> Iterator[tuple[Tensor, Tensor]]:
        """Noisy copies of all tasks in turn, ``batch`` rows at a time, with the slot of each row that counts."""
        device, shape = self.model.device, tasks[0].x.shape
        inputs = [task.x.to(device) for task in tasks]
        buffer = torch.zeros(self.batch, *shape, device=device)
        slots = torch.zeros(self.batch, dtype=torch.int64)
        filled = 0
        for piece, block in self._blocks(tasks, stage):
            taken = 0
            while taken < piece.rows:
                rows = min(piece.rows - taken, self.batch - filled)
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

    def _blocks(self, tasks: Sequence[Task], stage: Stage) -> Iterator[tuple[_Piece, Tensor]]:
        """Blocks of standard noise in order, drawn ahead by a second thread where the CPU draws them."""
        shape, device = tasks[0].x.shape, self.model.device
        pieces = self._pieces(tasks, stage)
        if device.type != "cpu":
            for piece in pieces:
                yield piece, self.noise.standard_block(piece.block, shape, device)
            return
        with ThreadPoolExecutor(max_workers=1) as pool:
            ahead: deque[tuple[_Piece, Future[Tensor]]] = deque()
            for piece in pieces:
                ahead.append((piece, pool.submit(self.noise.standard_block, piece.block, shape, device)))
                if len(ahead) > _LOOKAHEAD:
                    first, future = ahead.popleft()
                    yield first, future.result()
            while ahead:
                first, future = ahead.popleft()
                yield first, future.result()

    def _pieces(self, tasks: Sequence[Task], stage: Stage) -> Iterator[_Piece]:
        rows = self.noise.block_rows(tasks[0].x.shape)
        for slot, task in enumerate(tasks):
            assert task.start % rows == 0, "a task must start at a block boundary"
            for start in range(task.start, task.stop, rows):
                key = BlockKey(self.seed, task.index, stage, start // rows)
                yield _Piece(slot, key, min(rows, task.stop - start))


class _Counters:
    """One measure's histograms, one per task, on the device."""

    def __init__(self, measure: Measure, tasks: int, device: torch.device) -> None:
        self._measure = measure
        self._grid = Grid(measure.support)
        self._edges = torch.tensor(self._grid.edges, dtype=torch.float32, device=device)
        self._counts = torch.zeros(tasks * self._grid.size, dtype=torch.int64, device=device)

    def add(self, probabilities: Tensor, targets: Tensor, slots: Tensor) -> None:
        """Count a batch."""
        a, b = self._measure.support
        scores = self._measure(probabilities, targets).clamp(a, b)
        bins = torch.bucketize(scores, self._edges, right=True).sub_(1).clamp_(0, self._grid.bins)
        where = slots * self._grid.size + bins
        self._counts.index_add_(0, where, torch.ones_like(where))

    def histograms(self, sigma: float) -> list[ScoreHistogram]:
        """One histogram per task."""
        rows = self._counts.cpu().numpy().reshape(-1, self._grid.size)
        return [ScoreHistogram(row, support=self._measure.support, sigma=sigma) for row in rows]


class _Health:
    """Watches every batch for NaN and for rows that are no probabilities, and asks the device only once, at the end."""

    def __init__(self) -> None:
        self._worst: Tensor | None = None

    def watch(self, probabilities: Tensor) -> None:
        """Remember the largest deviation of a row's sum from one, or of an entry from [0, 1]; NaN stays NaN."""
        sums = (probabilities.sum(1) - 1).abs().amax()
        outside = (probabilities - probabilities.clamp(0, 1)).abs().amax()
        worst = torch.maximum(sums, outside)
        self._worst = worst if self._worst is None else torch.maximum(self._worst, worst)

    def check(self, model: Model) -> None:
        """Refuse to make anything of a sample with bad rows in it."""
        if self._worst is None or float(self._worst) <= TOLERANCE:
            return
        raise ModelError(
            f"the model {model.name} returned NaN, infinity, or rows that are not probabilities for some noisy copies "
            f"(a row's sum is off by {float(self._worst):.3g}); no certificate was made. Check it on noisy inputs"
        )
