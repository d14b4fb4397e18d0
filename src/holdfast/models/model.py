"""What a model is to the sampler: something that maps a batch on a device to class probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.models.spot_check import SpotCheck

TOLERANCE = 1e-3
"""How far a row of probabilities may be from summing to one."""


class Model(ABC):
    """Maps a batch (n, ...) to probabilities (n, classes) in float32, on one device.

    Requires:
        A row's answer depends on that row alone: noisy copies are independent samples only then.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """For the record."""

    @property
    @abstractmethod
    def fingerprint(self) -> str | None:
        """Equal for equal models, and different for others; None if that cannot be told."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where batches must live."""

    @property
    @abstractmethod
    def precision(self) -> str:
        """The arithmetic of the forward passes; the certificate is about the network at that precision."""

    @property
    @abstractmethod
    def compiled(self) -> bool:
        """Whether the forward passes run compiled: recorded, since it changes last digits."""

    @property
    def reentrant(self) -> bool:
        """Whether it may be asked from several threads at once."""
        return True

    @abstractmethod
    def moved(self, device: torch.device) -> "Model":
        """The same model on another device."""

    @abstractmethod
    def replicas(self) -> "Sequence[Model]":
        """The same model on further devices that are to be used as well."""

    @abstractmethod
    def prepared(self) -> AbstractContextManager[None]:
        """Within it the model may be asked, from several threads at once if it is reentrant; afterwards it is as before."""

    @abstractmethod
    def warm(self, size: torch.Size, draw: Callable[[], Tensor]) -> None:
        """Do what is done once for batches of this size, with one that is drawn if need be; only while :meth:`prepared`."""

    @abstractmethod
    def probabilities(self, batch: Tensor) -> Tensor:
        """Class probabilities of each row; only while :meth:`prepared`."""

    def asking(self, size: torch.Size) -> Callable[[Tensor], Tensor]:  # noqa: ARG002
        """Its :meth:`probabilities` of batches of one size, by the same means whatever others do to the model meanwhile."""
        return self.probabilities

    @property
    def work(self) -> float | None:
        """Floating-point operations for one row, where they are known."""
        return None

    def spot_check(self) -> SpotCheck | None:
        """A few rows and the answers to them; None if it was never asked any."""
        return None

    def scores(self, rows: Tensor) -> Tensor:
        """What :meth:`spot_check` compares: probabilities, or what they are made of. Nothing has to be prepared, or is compiled."""
        with self.prepared():
            return self.probabilities(rows.to(self.device))

    @abstractmethod
    def complaint(self, batch: Tensor) -> str:
        """What is wrong with the model's answer to a batch, in words; empty if nothing is."""


def check_model(model: Model, batch: Tensor) -> None:
    """Refuse a model whose answer to a first small batch is not a classifier's."""
    wrong = model.complaint(batch)
    if wrong:
        raise ModelError(f"the model {model.name} cannot be certified: {wrong}")
