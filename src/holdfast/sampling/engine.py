"""Who runs the noisy copies: this machine, or a cluster. The certificates are the same."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from torch import Tensor

from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models import Model
from holdfast.noise import Noise
from holdfast.progress import OnDone, ignore
from holdfast.sampling.requests import AnyRequest
from holdfast.sampling.scheduler import Executor, JobSizer, Scheduler


@dataclass(frozen=True, eq=False)
class Workload:
    """What all requests of a run have in common.

    Attributes:
        step: of the grid that inputs and noise are on; 0.0 for the float32 noise of Holdfast 0.1.0.
        x: an input like theirs.
        copies: how many one of them takes at most.
        batch: rows of a forward pass; None for what suits the model and its device.
    """

    noise: Noise
    step: float
    measures: Sequence[Measure]
    x: Tensor
    copies: int
    batch: int | None = None


class Engine(ABC):
    """Runs requests. Usable in a ``with`` block, after which nothing of it is left running."""

    def run(
        self,
        model: Model,
        noise: Noise,
        requests: Iterable[AnyRequest],
        *,
        step: float = 0.0,
        measures: Sequence[Measure] = DEFAULT_MEASURES,
        batch: int | None = None,
        on_copies: OnDone = ignore,
        in_order: bool = True,
    ) -> Iterator[AnyRequest]:
        """The requests as they are finished; they are asked for as there is room for them.

        Guarantee:
            A request's result depends on the request, the noise and the model, and on nothing else: not on the engine, the
            batch size, or what other requests there are.

        Parameters:
            step: of the grid that all inputs and the noise are on; 0.0 for the float32 noise of Holdfast 0.1.0.
            measures: what is counted of every copy.
            batch: rows of a forward pass; by default what suits the model and its device.
            on_copies: told how many more copies are done.
            in_order: whether requests come back in the order they were given in, or as soon as they are finished.
        """
        waiting = iter(requests)
        first = next(waiting, None)
        if first is not None:
            work = Workload(noise, step, tuple(measures), first.x, first.n0 + first.n, batch)
            executor, sizer = self.start(model, work)
            scheduler = Scheduler(executor, sizer, in_order=in_order, on_done=lambda done: on_copies(done.job.copies))
            yield from scheduler.run(itertools.chain((first,), waiting))

    @abstractmethod
    def start(self, model: Model, work: Workload) -> tuple[Executor, JobSizer]:
        """Who runs the jobs of a workload, and how large they are; the model is checked here, and refused in words."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; it is taken again when it is next needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
