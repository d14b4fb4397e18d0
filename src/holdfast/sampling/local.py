"""The local engine: all of this machine's cores, or its GPUs; batches that span inputs; constant memory."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

import torch

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.errors import ModelError
from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models import Model
from holdfast.noise import Noise, Stage
from holdfast.progress import OnDone
from holdfast.sampling.batching import SMALLEST_BATCH
from holdfast.sampling.beside import beside
from holdfast.sampling.copies import Copies, CounterCopies, copies_for
from holdfast.sampling.engine import Answer, Engine, Question, Task
from holdfast.sampling.tally import AnswerTally, ClassTally, EstimationTally, SelectionTally, Tally
from holdfast.sampling.windows import answers, first_copies, in_windows

_MOST_WORKERS = 16
T = TypeVar("T", bound=Tally)


@dataclass(eq=False)
class LocalEngine(Engine):
    """Runs every copy on the model's own device, and on those of its replicas.

    Every forward pass has exactly ``batch`` rows (the last one is filled up), so that a network whose rows do not depend on
    how many others there are gives the same answer whatever the batch size. On a CPU, threads share the copies, each
    with its own tally: that scales better than threads within one forward pass, and does not stall when the machine has
    other work to do. On GPUs each model is fed by a thread, and nothing is asked of a GPU until its last batch is counted.

    Attributes:
        batch: rows of a forward pass; halved, for good, when a device runs out of memory.
        replicas: the same model on further devices.
        counted: the kind of noisy copies; by default the one that suits the device.
    """

    model: Model
    noise: Noise
    seed: int
    batch: int
    replicas: Sequence[Model] = ()
    counted: type[Copies] | None = field(default=None, repr=False)
    measures: tuple[Measure, ...] = DEFAULT_MEASURES

    def answer(self, questions: Iterable[Question], *, on_copies: OnDone) -> Iterator[list[Answer]]:
        """A window of inputs at a time."""
        first = first_copies(self.model)
        if self._kind is CounterCopies and not self.replicas:
            return in_windows(lambda window: self._in_one_pass(window, on_copies), questions, first)
        return in_windows(lambda window: answers(self, window, on_copies=on_copies), questions, first)

    def _in_one_pass(self, window: list[Question], on_copies: OnDone) -> list[Answer]:
        """Selection and estimation share batches, and the device is asked only once: what :func:`answers` would find."""
        began = time.monotonic()
        selecting = [Task(each.index, each.x, 0, each.n0) for each in window]
        estimating = [Task(each.index, each.x, 0, each.n) for each in window]
        stages = [Stage.SELECTION] * len(window) + [Stage.ESTIMATION] * len(window)
        tally = self._run([*selecting, *estimating], stages, AnswerTally, on_copies)
        found = list(zip(tally.selections(), tally.evidence(self.noise), strict=True))
        seconds = (time.monotonic() - began) / len(window)
        return [Answer(selection, evidence, seconds) for selection, evidence in found]

    def select(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Selection]:
        """Average scores of all classes."""
        return self._run(tasks, [Stage.SELECTION] * len(tasks), SelectionTally, on_copies).selections()

    def estimate(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Evidence]:
        """One pass for label, score and margin; only counts are kept."""
        counting = partial(EstimationTally, measures=self.measures)
        return self._run(tasks, [Stage.ESTIMATION] * len(tasks), counting, on_copies).evidence(self.noise)

    def count_classes(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[ClassCounts]:
        """One pass for all classes."""
        return self._run(tasks, [Stage.ESTIMATION] * len(tasks), ClassTally, on_copies).class_counts(self.noise)

    @property
    def _kind(self) -> type[Copies]:
        return self.counted or copies_for(self.model.device)

    def _run(
        self,
        tasks: Sequence[Task],
        stages: Sequence[Stage],
        new_tally: Callable[[Sequence[Task], torch.device], T],
        on_copies: OnDone,
    ) -> T:
        while True:
            reported = 0

            def count(done: int) -> None:
                nonlocal reported
                reported += done
                on_copies(done)

            try:
                return self._attempt(tasks, stages, new_tally, count)
            except torch.OutOfMemoryError as error:
                if self.batch <= SMALLEST_BATCH:
                    raise ModelError(
                        f"the model {self.model.name} runs out of memory on {self.model.device} even with {self.batch} "
                        f"copies at a time; free memory there, or use another device"
                    ) from error
                # Counts of the failed attempt are thrown away: nothing is counted twice.
                self.batch = max(SMALLEST_BATCH, self.batch // 2)
                on_copies(-reported)
                if self.model.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _attempt(
        self,
        tasks: Sequence[Task],
        stages: Sequence[Stage],
        new_tally: Callable[[Sequence[Task], torch.device], T],
        on_copies: OnDone,
    ) -> T:
        on_cpu = self.model.device.type == "cpu"
        copies = self._kind(tasks, self.noise, self.seed, stages, self.batch)
        models = [self.model, *self.replicas]
        if on_cpu and self.model.reentrant:
            models = models * min(torch.get_num_threads(), _MOST_WORKERS)
        # Torch's threads are divided in the same way whether or not there is work for all: arithmetic may depend on it.
        threads = max(1, torch.get_num_threads() // len(models)) if on_cpu else torch.get_num_threads()
        # Selection and estimation in one pass are for one worker: it alone knows the classes in time.
        models = models[: 1 if new_tally is AnswerTally else copies.shares]
        stop = Event()
        size = torch.Size((self.batch, *copies.shape))

        def work(share: int, model: Model, ask: Callable[[torch.Tensor], torch.Tensor]) -> T:
            tally = new_tally(tasks, model.device)
            with beside(model.device) as counting:
                for batch in copies.batches(share, len(models), model.device):
                    if stop.is_set():
                        break
                    probabilities = ask(batch.copies)
                    with counting(probabilities, batch.slots):
                        tally.add(probabilities, batch.slots)
                    on_copies(batch.count)
            if model.device.type == "cuda":
                # Whoever reads the counts may be in another stream.
                torch.cuda.current_stream(model.device).synchronize()
            return tally

        with ExitStack() as stack:
            for model in dict.fromkeys(models):
                stack.enter_context(model.prepared())
            if len(models) == 1 and not on_cpu:
                # In the caller's thread: cuDNN's choice of kernels is remembered thread by thread, and takes long.
                self._warm(self.model, copies)
                tally, others = work(0, self.model, self.model.asking(size)), []
            else:
                pool = stack.enter_context(_pool(len(models), threads))
                stack.callback(stop.set)
                for model in dict.fromkeys(models):
                    if not on_cpu:
                        # Its weights may be on their way in a stream of the caller's.
                        torch.cuda.synchronize(model.device)
                    pool.submit(self._warm, model, copies).result()
                asks = {model: model.asking(size) for model in dict.fromkeys(models)}
                running = [pool.submit(work, share, model, asks[model]) for share, model in enumerate(models)]
                tally, *others = [each.result() for each in running]
        for other in others:
            tally.merge(other)
        tally.check(self.model.name)
        return tally

    def _warm(self, model: Model, copies: Copies) -> None:
        def draw() -> torch.Tensor:
            """Noisy copies like those to come, but others."""
            chance = torch.Generator(model.device).manual_seed(0)
            noise = torch.randn(self.batch, *copies.shape, device=model.device, generator=chance)
            inputs = torch.stack([task.x for task in copies.tasks[: self.batch]]).to(model.device)
            rows = inputs[torch.arange(self.batch, device=model.device) % len(inputs)] + self.noise.scale * noise
            return rows.to(memory_format=torch.channels_last) if rows.ndim == 4 and rows.is_cuda else rows

        model.warm(torch.Size((self.batch, *copies.shape)), draw)


@contextmanager
def _pool(workers: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Workers with ``threads`` of torch's own threads each; then torch's setting again."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)
