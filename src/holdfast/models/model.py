"""What a model is to the sampler: something that maps a batch on a device to class probabilities."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Model(ABC):
    """Maps a batch (n, ...) to probabilities (n, classes) in float32, on one device."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For the record."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where batches must live."""

    @abstractmethod
    def probabilities(self, batch: Tensor) -> Tensor:
        """Class probabilities of each row."""

    @abstractmethod
    def complaint(self, batch: Tensor) -> str:
        """What is wrong with the model's answer to a batch, in words; empty if nothing is."""
