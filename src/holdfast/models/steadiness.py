"""Whether a module stays as it is while it runs."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models.skeleton import TORCHS
from holdfast.models.working import weights_of


class Writes:
    """How often each parameter and buffer of a module was written to, up to now.

    Replacing one is not writing: modules may keep what they compute once. Tensors made in inference mode do not count
    what is written to them.
    """

    def __init__(self, net: nn.Module) -> None:
        self._known = [(tensor, tensor._version) for tensor in weights_of(net) if not tensor.is_inference()]

    @property
    def more(self) -> bool:
        """Whether any was written to since."""
        return any(tensor._version != version for tensor, version in self._known)


def keeps_notes(net: nn.Module, run: Callable[[], object]) -> bool:
    """Whether a module writes down on itself what it works with while ``run`` runs it.

    Two threads that ask such a module at once may read each other's notes.
    """
    before = [(module, _notes(module)) for module in net.modules()]
    run()
    return any(not _same(notes, _notes(module)) for module, notes in before)


def drifts(net: nn.Module, run: Callable[[], object]) -> bool:
    """Whether tensors that a module keeps are others when it is asked the same as before: its answers may follow them."""
    before = _kept(net)
    run()
    after = _kept(net)
    return any(
        value.shape == after[where].shape and not torch.equal(value.nan_to_num(), after[where].nan_to_num())
        for where, value in before.items()
        if where in after
    )


def _kept(net: nn.Module) -> dict[tuple[str, str], Tensor]:
    """Copies of a module's buffers, and of tensors that it holds as attributes."""
    return {
        (name, key): value.detach().clone()
        for name, module in net.named_modules()
        for key, value in (*module._buffers.items(), *vars(module).items())
        if isinstance(value, Tensor) and not value.is_sparse and not value.is_quantized
    }


def _notes(module: nn.Module) -> dict[str, tuple[object, list[object]]]:
    return {key: (value, _inside(value)) for key, value in vars(module).items() if key not in TORCHS}


def _inside(value: Any) -> list[object]:
    """What is looked at to tell whether a value was written to."""
    if isinstance(value, Tensor):
        return [] if value.is_inference() else [value._version]
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple | set) else []


def _same(before: dict[str, tuple[object, list[object]]], after: dict[str, tuple[object, list[object]]]) -> bool:
    if before.keys() != after.keys():
        return False
    for key, (value, inside) in before.items():
        now, inside_now = after[key]
        # Counting calls is harmless; sizes of batches are the same for all.
        if value is not now and not (type(value) is int and type(now) is int):
            return False
        if len(inside) != len(inside_now):
            return False
        if any(a is not b and not (type(a) is int and a == b) for a, b in zip(inside, inside_now, strict=True)):
            return False
    return True
