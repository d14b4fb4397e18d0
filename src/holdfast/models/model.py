"""What a model is to the sampler: something that maps a batch on a device to class probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

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

    @abstractmethod
    def moved(self, device: torch.device) -> "Model":
        """The same model on another device."""

    @abstractmethod
    def replicas(self) -> "Sequence[Model]":
        """The same model on further devices that are to be used as well."""

    @abstractmethod
    def prepared(self) -> AbstractContextManager[None]:
        """Within it the model may be asked, from several threads at once; afterwards it is as it was before."""

    @abstractmethod
    def warm(self, batch: Tensor) -> None:
        """Do what is done once for batches of this size; only while :meth:`prepared`, and before counting."""

    @abstractmethod
    def probabilities(self, batch: Tensor) -> Tensor:
        """Class probabilities of each row; only while :meth:`prepared`."""

    @abstractmethod
    def complaint(self, batch: Tensor) -> str:
        """What is wrong with the model's answer to a batch, in words; empty if nothing is."""
