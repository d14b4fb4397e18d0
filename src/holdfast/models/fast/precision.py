"""The arithmetic of forward passes. A certificate is about the network at the precision it was sampled in."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch

from holdfast.errors import InvalidArgument


@dataclass(frozen=True)
class Precision:
    """Which numbers convolutions and matrix products are computed in; everything else stays float32.

    Attributes:
        low: the type of their operands, if it is not float32.
        tensor_float: whether a GPU may round float32 operands to TensorFloat-32.
    """

    name: str
    low: torch.dtype | None = None
    tensor_float: bool = False

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Within it, in this thread, operations run at this precision."""
        return torch.autocast(device.type, self.low or torch.bfloat16, enabled=self.low is not None)

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Within it float32 means what this precision says; then the user's settings again.

        The settings are the whole process's, so one caller is inside at a time.
        """
        with _inside:
            before = [(owner, name, value) for owner, name in _settings() if (value := _read(owner, name)) is not None]
            _apply("tf32" if self.tensor_float else "ieee")
            try:
                yield
            finally:
                for owner, name, value in before:
                    setattr(owner, name, value)


_inside = RLock()


def _apply(meaning: str) -> None:
    """Through both of torch's interfaces, so that either can be read: the compiler reads the old one."""
    backends: Any = torch.backends
    torch.set_float32_matmul_precision("high" if meaning == "tf32" else "highest")
    backends.cudnn.allow_tf32 = meaning == "tf32"
    backends.cudnn.fp32_precision = meaning
    for owner in (backends.mkldnn.conv, backends.mkldnn.rnn):
        owner.fp32_precision = "ieee"


class _MatmulPrecision:
    """torch's old setting of matrix products as an attribute."""

    @property
    def value(self) -> str:
        return torch.get_float32_matmul_precision()

    @value.setter
    def value(self, name: str) -> None:
        torch.set_float32_matmul_precision(name)


def _settings() -> list[tuple[Any, str]]:
    """What is put back, in this order: the old interface writes over the new one's settings."""
    backends: Any = torch.backends
    cudnn, matmul, mkldnn = backends.cudnn, backends.cuda.matmul, backends.mkldnn
    new = (cudnn, cudnn.conv, cudnn.rnn, matmul, mkldnn.conv, mkldnn.rnn, mkldnn.matmul)
    return [(_MatmulPrecision(), "value"), (cudnn, "allow_tf32"), *((owner, "fp32_precision") for owner in new)]


def _read(owner: Any, name: str) -> object:
    """A setting; None where torch refuses to say, because the user mixed its interfaces."""
    try:
        return getattr(owner, name)
    except RuntimeError:
        return None


_KNOWN = {
    precision.name: precision
    for precision in (
        Precision("float32"),
        Precision("tf32", tensor_float=True),
        Precision("bfloat16", low=torch.bfloat16),
        Precision("float16", low=torch.float16),
    )
}


def precision_named(name: str, device: torch.device) -> Precision:
    """A precision by its name, if the device has it."""
    if name not in _KNOWN:
        raise InvalidArgument(f"precision must be one of {', '.join(_KNOWN)}, got {name!r}")
    if name == "tf32" and device.type != "cuda":
        raise InvalidArgument("precision tf32 exists on CUDA GPUs only; use float32 or bfloat16 on a CPU")
    return _KNOWN[name]
