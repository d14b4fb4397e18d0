"""How much work one noisy copy is: a count that is the same on every machine, for choices that must be."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from torch import Tensor, nn

_COUNTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


@contextmanager
def counted_flops(net: nn.Module) -> Iterator[list[float]]:
    """Collects the floating-point operations of every convolution and linear layer that runs within it.

    A multiplication and an addition for each weight and place: the same as ``torch.utils.flop_counter`` gives, which would
    take a second to import.
    """
    found: list[float] = []

    def hook(module: nn.Module, _: Any, answer: Tensor) -> None:
        weight: Any = module.weight
        found.append(2.0 * prod(weight.shape[1:]) * answer.numel())

    handles = [module.register_forward_hook(hook) for module in net.modules() if type(module) in _COUNTED]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
