"""What a model is to the sampler: something that maps a batch on a device to class probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

import torch
from torch import Tensor

from holdfast.models.compile_rule import CompileRule
from holdfast.models.outputs import checked_probabilities

running = RLock()
"""Forward passes of one process are run for one caller at a time, whichever classifier, engine or thread asks."""


@contextmanager
def torch_threads(number: int) -> Iterator[int]:
    """Within it torch has so many threads on a CPU. For small work one is best: to wake others takes longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield number
    finally:
        torch.set_num_threads(before)


class Model(ABC):
    """Maps a batch (n, ...) to probabilities (n, classes) in float32, on one device.

    A subclass sets ``name`` and ``device`` and defines :meth:`probabilities`; the rest has defaults that are right for
    any model, and slow for some.

    Requires:
        A row's probabilities depend on that row alone, at every call. This is checked at the batch size in use, before
        sampling and after it, on a few rows.

    Attributes:
        name: for the record.
        device: where batches must live.
        precision: of the forward passes; the certificate is about the network at that precision.
        compiled: whether the forward passes run compiled: recorded, since it changes last digits.
        flops: floating-point operations for one row; 0.0 where they are not known.
        stateless: whether several workers may run it at once, as it is.
        units: what radii are in, where that is not the input's own units.
        rows: of a forward pass on a CPU, at most: more pay where a pass costs much whatever its size.
    """

    name: str
    device: torch.device
    precision: str = "float32"
    compiled: bool = False
    flops: float = 0.0
    stateless: bool = False
    units: str = ""
    rows: int = 64

    @abstractmethod
    def probabilities(self, batch: Tensor) -> Tensor:
        """Class probabilities of each row; called within :meth:`session`."""

    def anew(self, batch: Tensor) -> Tensor:
        """The same, never from answers that were kept: it tells whether the model is the one it was. Called within :meth:`session`."""
        return self.probabilities(batch)

    def gradient(self, batch: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor | None:  # noqa: ARG002
        """The gradient of ``value(probabilities)``, one number a row, by each row; None if there is none to be had.

        Called within :meth:`session`. Attacks use it; certificates do not.
        """
        return None

    def replicate(self, device: torch.device) -> "Model | None":  # noqa: ARG002
        """The same model with Python state of its own, for another worker; None if there is no telling: use one worker."""
        return None

    def fingerprint(self) -> str | None:
        """Equal for equal models, and different for others; None if that cannot be told."""
        return None

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Every device that replicas are to run on."""
        return (self.device,)

    def expect(self, copies: int) -> None:  # noqa: B027
        """Told how many noisy copies may be asked for at most, before the first; the place to say what they cost."""

    def refresh(self) -> None:  # noqa: B027
        """Take over the weights as they are now, where they are copies; called when sampling begins."""

    def session(self) -> AbstractContextManager[object]:
        """Forward passes happen within it, one caller's at a time; the place to set modes, too."""
        return running

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows, refused in words if they are not a classifier's."""
        return checked_probabilities(self.name, self.probabilities(rows), len(rows), logits=False)

    def compile_rule(self, shape: torch.Size) -> CompileRule:  # noqa: ARG002
        """When to compile for inputs of a shape, where that is left to Holdfast; by default never."""
        return CompileRule()

    def worth_compiling(self, copies: int) -> bool:  # noqa: ARG002
        """Whether one input of so many copies alone is so much work that compiling is worth it."""
        return False

    def choose_compile(self, compiled: bool) -> None:  # noqa: B027
        """Run compiled from now on, or not, where nobody asked for either."""

    def fallback(self, reason: str) -> bool:  # noqa: ARG002
        """Run in a plainer way from now on, for ``reason``; False if this is the plainest."""
        return False

    @property
    def rounded(self) -> bool:
        """Whether it computes at a lower precision than float32."""
        return self.precision != "float32"

    @property
    def weights_version(self) -> object:
        """Changes whenever weights are written to, as far as that can be told."""
        return None

    def builder(self) -> Callable[[torch.device], "Model"]:
        """Makes the same model on a device of another process; what cloudpickle can send there."""
        return lambda _: self
