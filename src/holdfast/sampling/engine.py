"""Who runs the noisy copies: this machine, or a cluster. The certificates are the same."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models import Model
from holdfast.models.compile_rule import CompileRule
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
        compiled: whether to run compiled, where nobody asked for either.
    """

    noise: Noise
    step: float
    measures: Sequence[Measure]
    x: Tensor
    copies: int
    batch: int | None = None
    compiled: bool = False


class _Requests:
    """Requests, handed out as there is room for them.

    Attributes:
        next: the next one; None once there are no more.
        left: how many there are, if that is known.
    """

    def __init__(self, requests: Iterable[AnyRequest], inputs: int | None) -> None:
        self._rest = iter(requests)
        self.next, self.left = next(self._rest, None), inputs

    def until_compiling_pays(self, rule: CompileRule) -> Iterator[AnyRequest]:
        """All; or those to run uncompiled, which are finished before anything is compiled: none is counted both ways."""
        settled = rule.compiled
        while self.next is not None and (settled or not rule.pays(self.left)):
            if self.left is not None:
                self.left -= 1
            yield self.next
            self.next = next(self._rest, None)


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
        inputs: int | None = None,
        say: Callable[[str], None] = ignore,
    ) -> Iterator[AnyRequest]:
        """The requests as they are finished; they are asked for as there is room for them.

        Guarantee:
            A request's result depends on the request, the noise and the model, and on nothing else: not on the engine, the
            batch size, or what other requests there are. Where compiling is left to the rule, last digits depend on when it
            said so; each request records which way it was run.

        Parameters:
            step: of the grid that all inputs and the noise are on; 0.0 for the float32 noise of Holdfast 0.1.0.
            measures: what is counted of every copy.
            batch: rows of a forward pass; by default what suits the model and its device.
            on_copies: told how many more copies are done.
            in_order: whether requests come back in the order they were given in, or as soon as they are finished.
            inputs: how many requests there are, if that is known: it decides whether compiling pays.
            say: told what takes a while, and the empty string when it is over.
        """
        rest = _Requests(requests, inputs)
        rule: CompileRule | None = None
        while (first := rest.next) is not None:
            rule = rule or self.compile_rule(model, first.x.shape, batch)
            if not rule.compiled and rule.pays(rest.left):
                rule.compiled = True
                say(f"compiling once, about {rule.cost:.0f} s")
            work = Workload(noise, step, tuple(measures), first.x, first.n0 + first.n, batch, rule.compiled)
            executor, sizer = self.start(model, work)
            say("")
            scheduler = Scheduler(executor, sizer, in_order=in_order, on_done=lambda done: on_copies(done.job.copies))
            for request in scheduler.run(rest.until_compiling_pays(rule)):
                rule.learn(request.seconds)
                yield request

    def compile_rule(self, model: Model, shape: torch.Size, batch: int | None) -> CompileRule:  # noqa: ARG002
        """When to compile the model for inputs of a shape; by default never, unless :meth:`start` does so by itself."""
        return CompileRule()

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
