"""The local engine: all of this machine's cores, or its GPUs; batches that span inputs; constant memory."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from threading import Event
from typing import TypeVar

import torch
from torch import Tensor

from holdfast.models import Model
from holdfast.models.check import difference
from holdfast.models.compile_rule import CompileRule
from holdfast.models.model import running, torch_threads
from holdfast.sampling.accumulate import Accumulator, check_measures
from holdfast.sampling.batch_size import default_batch
from holdfast.sampling.batches import Drawing, Share, batches_for, split
from holdfast.sampling.engine import Engine, Workload
from holdfast.sampling.scheduler import Done, Executor, Job, JobSizer
from holdfast.sampling.side_stream import side_stream
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from holdfast.sampling.workers import (
    Workers,
    asked_of,
    dependent_rows,
    reference_of,
    smaller_batch,
    state_of,
    threads_each,
    workers_for,
    written_to,
)

T = TypeVar("T")

_SECONDS = 4.0
_FIRST = 2**12
_FIRST_FLOPS = {"cpu": 2e11, "cuda": 1e14}
"""A second or a few."""


class LocalSampler(Executor):
    """Counts spans of noise on this machine, a job at a time, in the thread that waits for it.

    Every forward pass has exactly as many rows as a batch (the last one is filled up), so that a network whose rows do not
    depend on how many others there are gives the same answer whatever the batch size. On a CPU, threads share the copies,
    each with its own replica and accumulator: that scales better than threads within one forward pass, and does not stall
    when the machine has other work to do. On GPUs each replica is fed by a thread, and nothing is asked of a GPU until its
    last batch is counted.

    Attributes:
        failed: whether a job was refused: nothing that was checked before is believed any more.
    """

    def __init__(
        self,
        model: Model,
        work: Workload,
        *,
        known: Workers | None = None,
        draw: Drawing | None = None,
    ) -> None:
        self.model, self._work = model, work
        self.failed = False
        self._draw = draw or batches_for(work.noise, work.step, model.device)
        self._job: Job | None = None
        self._answers: Tensor | None = None
        """What was first said of the probe; no worker may say otherwise later."""
        with running:
            found = known if known is not None and known.asked == asked_of(model, work) else None
            reference = self._reference() if found is None else None
            model.choose_compile(work.compiled)
            if found is not None and found.state == state_of(model):
                for each in dict.fromkeys(found.models):
                    each.refresh()
                self.workers = found  # weights may have been written to unnoticed: answers are compared within a run
            else:
                size = work.batch or default_batch(model.device, work.x.shape, model.flops, model.rows)
                self._check(size, self._reference() if reference is None else reference)
                self._answers = self.workers.answers
            self._weights = model.weights_version
        check_measures(work.measures, self.workers.answers.shape[1], model.device)

    def _reference(self) -> Tensor:
        return reference_of(self.model, self._work)

    def _check(self, size: int, reference: Tensor) -> None:
        """Workers for batches of this size, or of the largest that fits."""
        while True:
            try:
                self.workers = workers_for(self.model, self._work, size, self._draw, reference)
            except torch.OutOfMemoryError as error:
                size = smaller_batch(self.model, size, error)
            else:
                return

    @property
    def batch(self) -> int:
        """Rows of a forward pass; halved, for good, when a device runs out of memory."""
        return self.workers.batch

    @property
    def compiled(self) -> bool:
        """Whether its workers run compiled."""
        return self.workers.models[0].compiled

    @property
    def together(self) -> bool:
        """Whether one job may choose a class and count for it: then one worker does both."""
        return len(self.workers.models) == 1

    @property
    def has_room(self) -> bool:
        """For one job."""
        return self._job is None

    def submit(self, job: Job) -> None:
        """It runs when it is waited for."""
        self._job = job

    def wait(self) -> list[Done]:
        """Run the job."""
        job, self._job = self._job, None
        assert job is not None
        began = time.monotonic()
        counts: Sequence[Counts] | Exception
        try:
            counts = self.count(job.spans)
        except Exception as error:
            counts, self.failed = error, True
        return [Done(job, counts, time.monotonic() - began)]

    def count(self, spans: Sequence[NoiseSpan]) -> list[Counts]:
        """The counts of each span; by one worker, where some count for a class that others choose."""
        ordered = sorted(spans, key=lambda span: span.counting is not Counting.SELECTION)
        while True:
            try:
                counts = dict(zip(map(id, ordered), self._pass(ordered), strict=True))
                return [counts[id(span)] for span in spans]
            except torch.OutOfMemoryError as error:
                # Counts of the failed attempt are thrown away: nothing is counted twice.
                self._check(smaller_batch(self.model, self.batch, error), self._reference())

    def _pass(self, spans: Sequence[NoiseSpan]) -> list[Counts]:
        workers, work = self.workers, self._work
        copies, room = sum(span.copies for span in spans), workers.batch - len(workers.probe)
        together = any(isinstance(span.target, NoiseSpan) for span in spans)
        models = workers.models[: 1 if together else -(-copies // room)]
        shares, stop = split(spans, len(models)), Event()

        def run(number: int) -> tuple[Accumulator, list[Tensor]]:
            torch.set_num_threads(threads)
            model, answers = models[number], list[Tensor]()
            accumulator = Accumulator(spans, work.measures, model.device)
            share = Share(
                *(shares[number], len(spans), work.noise, work.step, workers.batch, workers.probe, model.device),
                drawers=workers.pool if alone else None,
            )
            with torch.no_grad(), side_stream(model.device) as counting:
                for batch in self._draw(share):
                    probabilities = model.probabilities(batch.copies)
                    if probabilities.shape != (expected := (len(batch.copies), workers.answers.shape[1])):
                        fault = f"class scores have shape {tuple(probabilities.shape)} instead of {expected}"
                        raise dependent_rows(self.model, fault)
                    with counting(probabilities, batch.slots):
                        accumulator.add(probabilities, batch.slots, batch.count)
                    found = probabilities[room:]
                    least, most = answers or (found, found)
                    answers = [torch.minimum(least, found), torch.maximum(most, found)]
                    if stop.is_set():
                        break
            if model.device.type == "cuda":
                # Whoever reads the counts may be in another stream.
                torch.cuda.current_stream(model.device).synchronize()
            return accumulator, answers

        # Divided alike whether or not there is work for all, since arithmetic may depend on it.
        with running, self.model.session(), torch_threads(threads_each(self.model, len(workers.models))) as threads:
            alone = self.model.device.type == "cpu" and len(workers.models) == 1 < threads
            versions = [model.weights_version for model in models]
            # In the caller's thread, if there is one worker: cuDNN remembers its choice of kernels thread by thread.
            found = [run(0)] if len(models) == 1 else self._in_threads(run, len(models), stop)
            written = versions != [model.weights_version for model in models]
        if written or self._weights != self.model.weights_version:
            raise written_to(self.model, "while it was sampled")
        for answers in (each for _, some in found for each in some):
            self._answers = answers.cpu() if self._answers is None else self._answers
            fault = difference(answers, self._answers[: len(answers)], workers.tolerance)
            if fault:
                raise dependent_rows(self.model, fault)
        accumulator = found[0][0]
        for other, _ in found[1:]:
            accumulator.merge(other)
        return accumulator.results(self.model.name, work.noise)

    def _in_threads(self, run: Callable[[int], T], workers: int, stop: Event) -> list[T]:
        for device in self.model.devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # weights may be on their way in a stream of the caller's
        futures = [self.workers.pool.submit(run, number) for number in range(workers)]
        try:
            return [each.result() for each in futures]
        finally:  # an interruption included
            stop.set()
            wait(futures)


class Local(Engine):
    """This machine, in this process: the model's own device, or devices."""

    def __init__(self) -> None:
        self._last: LocalSampler | None = None
        self._rules: dict[object, CompileRule] = {}

    def compile_rule(self, model: Model, shape: torch.Size, batch: int | None) -> CompileRule:
        """One for each shape of batches, since each is compiled by itself."""
        asked = model, shape, batch
        rule = self._rules[asked] = self._rules.get(asked) or model.compile_rule(shape)
        rule.begin()
        return rule

    def start(self, model: Model, work: Workload) -> tuple[Executor, JobSizer]:
        """Jobs of four seconds, whatever requests they are of; the first are smaller, since nothing is known yet."""
        known = self._last.workers if self._last is not None and not self._last.failed else None
        self._last = sampler = LocalSampler(model, work, known=known)
        if sampler.workers is not known:
            self._sizer = JobSizer(first_copies(model), _SECONDS, together=sampler.together)
        return sampler, self._sizer

    def close(self) -> None:
        """Let the workers go."""
        self._last = None


def first_copies(model: Model) -> int:
    """How many copies are a matter of seconds, to begin with."""
    most = _FIRST_FLOPS.get(model.device.type, float("inf"))
    return int(min(_FIRST, most / model.flops)) if model.flops else _FIRST
