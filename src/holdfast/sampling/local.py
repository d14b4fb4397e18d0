"""The local engine: all of this machine's cores, or its GPUs; batches that span inputs; constant memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Event

import torch
from torch import Tensor

from holdfast.certificates.evidence import Selection
from holdfast.models import Model
from holdfast.models.check import difference
from holdfast.models.model import running
from holdfast.progress import OnDone, ignore
from holdfast.sampling.accumulate import Accumulator
from holdfast.sampling.batches import NoisyBatches, batches_for
from holdfast.sampling.engine import Engine, Workload
from holdfast.sampling.scheduler import Abandoned, Done, Executor, Job, JobSizer
from holdfast.sampling.side_stream import side_stream
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from holdfast.sampling.workers import WorkerCache, Workers, dependent_rows, smaller_batch, written_to

_SECONDS = 10.0
"""What a crash costs: finished inputs are handed on that often."""
_FIRST = 2**14
_FIRST_FLOPS = {"cpu": 2e11, "cuda": 1e14}
"""A second or a few."""


class LocalSampler:
    """Counts spans of noise on this machine.

    Every forward pass has exactly as many rows as a batch (the last one is filled up), so that a network whose rows do not
    depend on how many others there are gives the same answer whatever the batch size. On a CPU, threads share the copies,
    each with its own replica and accumulator: that scales better than threads within one forward pass, and does not stall
    when the machine has other work to do. On GPUs each replica is fed by a thread, and nothing is asked of a GPU until its
    last batch is counted.
    """

    def __init__(
        self, work: Workload, *, cache: WorkerCache | None = None, kind: type[NoisyBatches] | None = None
    ) -> None:
        self.model, self._noise, self._measures = work.model, work.noise, tuple(work.measures)
        self._work = work
        self._kind = kind or batches_for(work.noise, work.model.device)
        self._cache = cache or WorkerCache(work.model)
        self._workers = self._get(work.batch)
        self._answers = self._workers.answers
        """What was first said of the probe; no worker may say otherwise later."""

    def _get(self, batch: int | None) -> Workers:
        return self._cache.get(self._noise, self._work.x, copies=self._work.copies, batch=batch, kind=self._kind)

    @property
    def batch(self) -> int:
        """Rows of a forward pass; halved, for good, when a device runs out of memory."""
        return self._workers.batch

    def count(self, spans: Sequence[NoiseSpan], on_copies: OnDone = ignore) -> list[Counts]:
        """The counts of each span.

        One worker, and so little work that waking others would take longer, does everything in one pass, selection first.
        Several workers first choose the classes.
        """
        workers, copies = self._workers, sum(span.copies for span in spans)
        alone = len(workers.models) == 1 or copies <= workers.batch
        choosing = [span for span in spans if span.counting is Counting.SELECTION]
        counting = [span for span in spans if span.counting is not Counting.SELECTION]
        if alone or not choosing:
            ordered = [*choosing, *counting]
            found = dict(zip(map(id, ordered), self._attempt(ordered, on_copies, alone=alone), strict=True))
        else:
            found = dict(zip(map(id, choosing), self._attempt(choosing, on_copies, alone=False), strict=True))
            aimed = [_aimed(span, found) for span in counting]
            if counting:
                found |= zip(map(id, counting), self._attempt(aimed, on_copies, alone=False), strict=True)
        return [found[id(span)] for span in spans]

    def _attempt(self, spans: Sequence[NoiseSpan], on_copies: OnDone, *, alone: bool) -> list[Counts]:
        while True:
            reported = 0

            def count(done: int) -> None:
                nonlocal reported
                reported += done
                on_copies(done)

            try:
                return self._pass(spans, count, alone=alone)
            except torch.OutOfMemoryError as error:
                # Counts of the failed attempt are thrown away: nothing is counted twice.
                size = smaller_batch(self.model, self.batch, error)
                on_copies(-reported)
                self._workers = self._get(size)
                self._answers = self._workers.answers

    def _pass(self, spans: Sequence[NoiseSpan], on_copies: OnDone, *, alone: bool) -> list[Counts]:
        workers = self._workers
        batches = self._kind(spans, self._noise, workers.batch, workers.probe)
        models = workers.models[: 1 if alone else batches.shares]
        stop = Event()

        def work(number: int) -> tuple[Accumulator, list[Tensor]]:
            torch.set_num_threads(threads)
            model = models[number]
            accumulator = Accumulator(spans, self._measures, model.device)
            shown, answers = len(workers.probe), list[Tensor]()
            with torch.no_grad(), side_stream(model.device) as counting:
                for batch in batches.of_worker(number, len(models), model.device):
                    probabilities = model.probabilities(batch.copies)
                    with counting(probabilities, batch.slots):
                        accumulator.add(probabilities, batch.slots, batch.count)
                    answers += [probabilities[:shown]] * batch.first
                    answers += [probabilities[len(probabilities) - shown :]] * batch.last
                    on_copies(batch.count)
                    if stop.is_set():
                        break
            if model.device.type == "cuda":
                # Whoever reads the counts may be in another stream.
                torch.cuda.current_stream(model.device).synchronize()
            return accumulator, answers

        before, threads = torch.get_num_threads(), workers.threads
        with ExitStack() as stack:
            stack.enter_context(running)
            versions = [model.weights_version for model in models]
            for model in dict.fromkeys(models):
                stack.enter_context(model.session())
            stack.callback(torch.set_num_threads, before)
            # In the caller's thread, if there is one worker: cuDNN remembers its choice of kernels thread by thread.
            found = [work(0)] if alone else self._in_threads(work, len(models), stop)
            written = versions != [model.weights_version for model in models]
        if written or workers.weights != self.model.weights_version:
            raise written_to(self.model, "while it was sampled")
        for answers in (each for _, some in found for each in some):
            self._answers = answers.cpu() if self._answers is None else self._answers
            fault = difference(answers, self._answers, workers.tolerance)
            if fault:
                raise dependent_rows(self.model, fault)
        accumulator = found[0][0]
        for other, _ in found[1:]:
            accumulator.merge(other)
        return accumulator.results(self.model.name, self._noise)

    def _in_threads(
        self, work: Callable[[int], tuple[Accumulator, list[Tensor]]], workers: int, stop: Event
    ) -> list[tuple[Accumulator, list[Tensor]]]:
        if self.model.device.type == "cuda":
            for device in self.model.devices:
                torch.cuda.synchronize(device)  # weights may be on their way in a stream of the caller's
        futures = [self._cache.pool.submit(work, number) for number in range(workers)]
        try:
            return [each.result() for each in futures]
        finally:  # an interruption included
            stop.set()
            wait(futures)


def _aimed(span: NoiseSpan, found: Mapping[int, Counts]) -> NoiseSpan:
    """With the class that its selection span chose."""
    if not isinstance(span.target, NoiseSpan):
        return span
    chosen = found[id(span.target)]
    assert isinstance(chosen, Selection)
    return replace(span, target=chosen.predicted)


class LocalExecutor(Executor):
    """Runs a job when it is waited for, in this thread."""

    def __init__(self, sampler: LocalSampler, on_copies: OnDone = ignore) -> None:
        self._sampler = sampler
        self._on_copies = on_copies
        self._job: Job | None = None

    @property
    def has_room(self) -> bool:
        """For one job."""
        return self._job is None

    @property
    def busy(self) -> bool:
        """Whether a job waits to be run."""
        return self._job is not None

    def submit(self, job: Job) -> None:
        """It runs when it is waited for."""
        self._job = job

    def wait(self) -> list[Done]:
        """Run the job; its present batch is the last if nobody waits for it any more."""
        job, self._job = self._job, None
        assert job is not None
        began = time.monotonic()

        def on_copies(done: int) -> None:
            self._on_copies(done)
            if all(request.over for request in job.requests):
                raise Abandoned

        counts: Sequence[Counts] | Exception
        try:
            counts = self._sampler.count(job.spans, on_copies)
        except Exception as error:
            counts = error
        return [Done(job, counts, time.monotonic() - began)]


@dataclass(eq=False)
class Local(Engine):
    """This machine, in this process: the model's own device, or devices."""

    def __post_init__(self) -> None:
        self._cache: WorkerCache | None = None

    def start(self, work: Workload, on_copies: OnDone) -> tuple[Executor, JobSizer]:
        """As many requests at a time as take about ten seconds; the first few are few, since nothing is known yet."""
        sampler = self.sampler(work)
        return LocalExecutor(sampler, on_copies), JobSizer(first_copies(work.model), _SECONDS, cut=False)

    def sampler(self, work: Workload) -> LocalSampler:
        """Its model is checked. The workers of the last model are kept."""
        cache = self._cache
        if cache is None or cache.model is not work.model:
            cache = self._cache = WorkerCache(work.model)
        return LocalSampler(work, cache=cache)

    def close(self) -> None:
        """Let the workers go."""
        if self._cache is not None:
            self._cache.close()
        self._cache = None


def first_copies(model: Model) -> int:
    """How many copies are a matter of seconds, to begin with."""
    most = _FIRST_FLOPS.get(model.device.type, float("inf"))
    return int(min(_FIRST, most / model.flops)) if model.flops else _FIRST
