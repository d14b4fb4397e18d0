"""The arithmetic of forward passes. A certificate is about the network at the precision it was sampled in."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

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
        """Within it, in all threads, float32 means what this precision says; then the user's settings again."""
        conv, matmul = torch.backends.cudnn.conv, torch.backends.cuda.matmul  # type: ignore[attr-defined]
        before = conv.fp32_precision, matmul.fp32_precision
        conv.fp32_precision = matmul.fp32_precision = "tf32" if self.tensor_float else "ieee"
        try:
            yield
        finally:
            conv.fp32_precision, matmul.fp32_precision = before


_KNOWN = {
    precision.name: precision
    for precision in (
        Precision("float32"),
        Precision("tf32", tensor_float=True),
        Precision("bfloat16", low=torch.bfloat16),
        Precision("float16", low=torch.float16),
    )
}


def precision_names() -> tuple[str, ...]:
    """What ``--precision`` accepts."""
    return tuple(_KNOWN)


def precision_named(name: str, device: torch.device) -> Precision:
    """A precision by its name, if the device has it."""
    if name not in _KNOWN:
        raise InvalidArgument(f"precision must be one of {', '.join(_KNOWN)}, got {name!r}")
    if name == "tf32" and device.type != "cuda":
        raise InvalidArgument("precision tf32 exists on CUDA GPUs only; use float32 or bfloat16 on a CPU")
    return _KNOWN[name]
