"""Where noisy copies are run: on this machine, or on a cluster. The certificates are the same."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from holdfast.models import Model
from holdfast.noise import Noise
from holdfast.sampling.engine import Engine
from holdfast.sampling.local import LocalEngine


class Compute(ABC):
    """Makes engines. Usable in a ``with`` block, after which nothing of it is left running."""

    @abstractmethod
    def engine(self, model: Model, noise: Noise, seed: int, batch: int) -> Engine:
        """An engine for one model; it stays usable until the next one is asked for."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; it is taken again when it is next needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Local(Compute):
    """This machine, in this process: the model's own device, and its replicas'."""

    def engine(self, model: Model, noise: Noise, seed: int, batch: int) -> Engine:
        """The local engine."""
        return LocalEngine(model, noise, seed, batch, model.replicas())

    def close(self) -> None:
        """There is nothing to give back."""
