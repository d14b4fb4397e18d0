"""The module as it is run: a copy laid out for the device, at the precision asked for, compiled if that pays."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models.precision import Precision

_CASTABLE = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class WorkingCopy:
    """A copy of a module, kept equal to it; the user's own module is never changed.

    Its convolutions are stored channels last, which is what fast kernels read. Weights of convolutions and linear layers
    are cast to a low precision once, instead of in every forward pass: the same numbers that autocast would make.
    A module that cannot be copied is run as it is.
    """

    def __init__(self, net: nn.Module, precision: Precision) -> None:
        self._net = net
        self._precision = precision
        self._copy: nn.Module | None = None
        self._seen: object = None
        self._compiled: Callable[[Tensor], Tensor] | None = None

    def eager(self) -> nn.Module:
        """The module to call, with the weights that the user's module has now."""
        state = fingerprint(self._net)
        if self._copy is None:
            self._copy = self._made()
        elif self._seen != state and self._copy is not self._net:
            self._copy.load_state_dict(self._net.state_dict())
        self._seen = state
        return self._copy

    def compiled(self) -> Callable[[Tensor], Tensor]:
        """The same, compiled for batches of one fixed size; the work is done at the first call."""
        module = self.eager()
        if self._compiled is None:
            self._compiled = torch.compile(module, dynamic=False, options=_options(module))
        return self._compiled

    def _made(self) -> nn.Module:
        try:
            made = copy.deepcopy(self._net)
        except Exception:  # foreign code: whatever stops a copy, the module itself still runs
            return self._net
        if made is self._net:
            return made
        for module in made.modules():
            module.training = False
            # A subclass may compute with its weights in ways of its own: leave it to autocast.
            if self._precision.low is not None and type(module) in _CASTABLE:
                module.to(self._precision.low)
            if type(module) is nn.Conv2d:
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return made.requires_grad_(False)


def _options(module: nn.Module) -> dict[str, Any]:
    """On a GPU, time the candidates for each operation, Triton's convolutions with what follows fused in among them."""
    first = next(module.parameters(), None)
    if first is None or first.device.type != "cuda":
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._inductor import select_algorithm

    select_algorithm.PRINT_AUTOTUNE = False
    return {
        "max_autotune": True,
        "max_autotune_conv_backends": "ATEN,TRITON",
        "max_autotune_report_choices_stats": False,
    }


def fingerprint(net: nn.Module) -> object:
    """Changes whenever a parameter or a buffer is replaced or written to."""
    tensors = (*net.parameters(), *net.buffers())
    return tuple((id(tensor), tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors)
