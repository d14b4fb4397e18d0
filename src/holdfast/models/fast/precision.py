"""The arithmetic of forward passes. A certificate is about the network at the precision it was sampled in."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.errors import InvalidArgument


@dataclass(frozen=True)
class Precision:
    """Which numbers convolutions and matrix products are computed in; everything else stays float32.

    Attributes:
        low: the type of their operands, if it is not float32.
        convolutions, products: whether a GPU may round float32 operands of these to TensorFloat-32.
    """

    name: str
    low: torch.dtype | None = None
    convolutions: bool = False
    products: bool = False

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Within it, in this thread, operations run at this precision."""
        return torch.autocast(device.type, self.low or torch.bfloat16, enabled=self.low is not None)

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Within it float32 means what this precision says; then the user's settings again.

        Requires:
            One caller at a time, since the settings are the whole process's: a model's session sees to that.
        """
        before = [(owner, name, value) for owner, name in _settings() if (value := _read(owner, name)) is not None]
        self._apply()
        try:
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)

    def _apply(self) -> None:
        """Through both of torch's interfaces, so that either can be read: the compiler reads the old one."""
        backends: Any = torch.backends
        torch.set_float32_matmul_precision("high" if self.products else "highest")
        backends.cudnn.allow_tf32 = self.convolutions
        backends.cudnn.fp32_precision = "tf32" if self.convolutions else "ieee"
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
        Precision("tf32", convolutions=True, products=True),
        Precision("tf32-convolutions", convolutions=True),
        Precision("tf32-products", products=True),
        Precision("bfloat16", low=torch.bfloat16),
        Precision("float16", low=torch.float16),
    )
}


def precision_named(name: str | None, device: torch.device) -> Precision:
    """A precision by its name; None is how torch itself would run a float32 module there, now.

    What a GPU rounds to TensorFloat-32 is float32 on a CPU, so that its runs can be verified there: see :func:`check_native`.
    """
    if name is None:
        return _torchs_own(device)
    if name not in _KNOWN:
        raise InvalidArgument(f"precision must be one of {', '.join(_KNOWN)}, got {name!r}")
    return _KNOWN[name]


def check_native(name: str, device: torch.device) -> None:
    """Refuse TensorFloat-32 where there is none: a new certificate would record what it was not sampled in."""
    known = _KNOWN.get(name)
    if known is not None and (known.convolutions or known.products) and device.type != "cuda":
        raise InvalidArgument(f"precision {name} exists on CUDA GPUs only; use float32 or bfloat16 on a CPU")


def _torchs_own(device: torch.device) -> Precision:
    """By torch's global settings on a GPU, where convolutions are TensorFloat-32 unless the user says otherwise."""
    backends: Any = torch.backends
    owners = (backends.cudnn.conv, backends.cuda.matmul) if device.type == "cuda" else ()
    found = [_read(owner, "fp32_precision") == "tf32" for owner in owners] or [False, False]
    return next(each for each in _KNOWN.values() if each.low is None and [each.convolutions, each.products] == found)
