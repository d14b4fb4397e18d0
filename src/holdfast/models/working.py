"""The module as it is run: a copy laid out for the device, at the precision asked for, compiled if that pays."""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models.precision import Precision

_NARROW = 128
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
        self._compiled: Callable[[Tensor], Tensor] | None = None
        self._structure: object = None
        self._weights: object = None

    def refresh(self) -> None:
        """Take over what the user's module has become: new weights into the same copy, anything else into a new one."""
        structure, weights = structure_of(self._net), weights_of(self._net)
        if self._copy is None or structure != self._structure:
            self._copy, self._compiled = self._made(), None
        elif weights != self._weights and self._copy is not self._net:
            self._copy.load_state_dict(self._net.state_dict())
        self._structure, self._weights = structure, weights

    def eager(self) -> nn.Module:
        """The copy, as it was when last refreshed."""
        if self._copy is None:
            self.refresh()
        assert self._copy is not None
        return self._copy

    def compiled(self) -> Callable[[Tensor], Tensor]:
        """The same, compiled for batches of one fixed size; the work is done at the first call."""
        if self._compiled is None:
            module = self.eager()
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
    """For narrow convolutions on a GPU, time Triton's, with what follows fused in, against the library's.

    On a ResNet-110 with its 16 to 64 channels that is worth a factor of 1.6, for a minute of timing; where
    convolutions are wide the library wins, and timing all of them would take many minutes.
    """
    widths = [each.out_channels for each in module.modules() if isinstance(each, nn.Conv2d)]
    first = next(module.parameters(), None)
    if first is None or first.device.type != "cuda" or not widths or max(widths) > _NARROW:
        return {}
    return {
        "max_autotune": True,
        "max_autotune_conv_backends": "ATEN,TRITON",
        "max_autotune_gemm_backends": "ATEN",
        "max_autotune_report_choices_stats": False,
    }


@contextmanager
def quiet_compiler() -> Iterator[None]:
    """Within it the compiler keeps to itself which candidates it times, which fail, and what is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._inductor import select_algorithm

        loud = logging.getLogger(select_algorithm.__name__)
        level, printing = loud.level, select_algorithm.PRINT_AUTOTUNE
        loud.setLevel(logging.CRITICAL)
        select_algorithm.PRINT_AUTOTUNE = False
        try:
            yield
        finally:
            loud.setLevel(level)
            select_algorithm.PRINT_AUTOTUNE = printing


def weights_of(net: nn.Module) -> object:
    """Changes whenever a parameter or a buffer is replaced or written to."""
    tensors = (*net.parameters(), *net.buffers())
    return tuple((id(tensor), tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors)


def structure_of(net: nn.Module) -> object:
    """Changes whenever a part of the module is exchanged, or a plain number or word in it is."""
    return tuple(
        (id(module), tuple((key, value) for key, value in vars(module).items() if _plain(key, value)))
        for module in net.modules()
    )


def _plain(key: str, value: object) -> bool:
    return key != "training" and not key.startswith("_") and isinstance(value, int | float | str | tuple | None)
