"""Who runs the noisy copies: this machine, or a cluster. The certificates are the same."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from holdfast.measures import DEFAULT_MEASURES, Measure
from holdfast.models import Model
from holdfast.noise import Noise
from holdfast.progress import OnDone, ignore
from holdfast.sampling.requests import AnyRequest


class Engine(ABC):
    """Runs requests. Usable in a ``with`` block, after which nothing of it is left running."""

    @abstractmethod
    def run(
        self,
        model: Model,
        noise: Noise,
        requests: Iterable[AnyRequest],
        *,
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
            measures: what is counted of every copy.
            batch: rows of a forward pass; by default what suits the model and its device.
            on_copies: told how many more copies are done.
            in_order: whether requests come back in the order they were given in, or as soon as they are finished.
        """

    @abstractmethod
    def close(self) -> None:
        """Give everything back; it is taken again when it is next needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
