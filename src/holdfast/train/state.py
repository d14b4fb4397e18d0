"""What an interrupted training resumes from: one file beside the weights, replaced after every epoch."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import Timeout
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from holdfast.errors import CheckpointError, reading
from holdfast.files import acquire, sweep
from holdfast.train.recipe import Epoch
from holdfast.zoo.checkpoint import write_bytes


@dataclass(frozen=True)
class TrainingState:
    """Everything that steps change: the network, the optimizer, the learning rate, the order of images, random numbers."""

    net: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: LRScheduler
    order: np.random.Generator
    device: torch.device

    def content(self) -> dict[str, Any]:
        """Tensors and plain numbers."""
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "order": self.order.bit_generator.state,
            "cpu": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        """Take everything over, into the tensors that are there. Requires that no step was made yet."""
        self.net.load_state_dict(content["net"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.schedule.load_state_dict(content["schedule"])
        self.order.bit_generator.state = content["order"]
        torch.set_rng_state(content["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(content["cuda"], self.device)


@contextmanager
def locked_training(out: Path) -> Iterator[None]:
    """Keep other trainings from writing the same weights, and remove what a killed one left; refused at once if one runs."""
    try:
        lock = acquire(out.with_name(f".{out.name}.lock"))
    except Timeout as error:
        raise CheckpointError(
            f"another training is writing {out} right now; wait until it ends, or choose another --out"
        ) from error
    except OSError as error:
        raise CheckpointError(f"could not lock {out} ({error}); choose another place") from error
    try:
        for each in (out, state_path(out)):
            sweep(each)
        yield
    finally:
        lock.release()


def state_path(out: Path) -> Path:
    """Where the state of a training lies that writes these weights."""
    return out.with_name(f"{out.name}.training")


class StateFile:
    """The file of one training. Another training's file, or a damaged one, is refused when it is opened.

    Parameters:
        training: what the weights depend on, in words, by name.

    Attributes:
        epochs: those that are finished; none if there is no file yet.
    """

    def __init__(self, path: Path, training: Mapping[str, str]) -> None:
        # torch.load reads plain types only, and torch's version is a str of a class of its own.
        self._path, self._training = path, {name: str(value) for name, value in training.items()}
        self._content = self._read() if path.exists() else None
        self.epochs: list[Epoch] = [] if self._content is None else self._content["epochs"]

    def restore(self, state: TrainingState) -> None:
        """To where the last finished epoch left it; if there is none, leave it."""
        if self._content is not None:
            with self._reading():
                state.restore(self._content["state"])
            self._content = None  # the memory is needed elsewhere

    def save(self, state: TrainingState, epoch: Epoch) -> None:
        """Replace the file in one step."""
        epochs = [*self.epochs, epoch]
        buffer = io.BytesIO()
        found = {"training": self._training, "epochs": [asdict(each) for each in epochs], "state": state.content()}
        torch.save(found, buffer)
        write_bytes(self._path, buffer.getvalue())
        self.epochs = epochs

    def remove(self) -> None:
        """The weights are written."""
        self._path.unlink(missing_ok=True)

    def _reading(self) -> AbstractContextManager[None]:
        wrong = "should hold the state of an interrupted training and cannot be read"
        return reading(self._path, CheckpointError, wrong, remedy="restore it from a copy, or delete it to begin anew")

    def _read(self) -> dict[str, Any]:
        with self._reading():
            with zipfile.ZipFile(self._path) as archive:
                damaged = archive.testzip()  # torch does not compare checksums
            if damaged is not None:
                raise zipfile.BadZipFile
            content: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
            there = dict(content["training"])
            content["epochs"] = [Epoch(**each) for each in content["epochs"]]
        different = [
            f"{name} is {there.get(name)} there and {here} here"
            for name, here in self._training.items()
            if there.get(name) != here
        ]
        if different:
            raise CheckpointError(
                f"{self._path} is of another training, which was interrupted: {'; '.join(different)}. Repeat the command it was "
                f"begun with to go on with it, choose another --out, or delete that file to begin anew"
            )
        return content
