"""What a module is apart from its weights, as bytes: to notice that it has become another one."""

import hashlib
import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_WEIGHTS = ("_parameters", "_buffers", "_modules", "training")


def skeleton_of(net: nn.Module) -> bytes | None:
    """Equal for modules that differ in nothing but their weights and training flags; None if that cannot be told.

    Classes, attributes, hooks, tensors that are neither parameters nor buffers, and the names, shapes and types of those
    that are, all count. A function counts by its name; one without a name that can be found again (a lambda, a closure)
    makes the module one that cannot be compared.
    """
    names = {id(module): name for name, module in net.named_modules()}
    parts: list[object] = []
    for name, module in net.named_modules():
        rest = {key: value for key, value in vars(module).items() if key not in _WEIGHTS}
        parts.append((name, type(module).__module__, type(module).__qualname__, rest))
        parts.append([key for key, _ in module.named_children()])
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        parts.append((name, str(tensor.dtype), tuple(tensor.shape)))
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, names).dump(parts)
    except Exception:  # foreign objects: whatever stops them from being written down
        return None
    return hashlib.sha256(buffer.getvalue()).digest()


def fingerprint(net: nn.Module) -> str | None:
    """SHA-256 of the skeleton and of every parameter and buffer by name; None if the module cannot be compared."""
    skeleton = skeleton_of(net)
    if skeleton is None:
        return None
    digest = hashlib.sha256(skeleton)
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        digest.update(f"\n{name} ".encode())
        digest.update(_content(tensor))
    return digest.hexdigest()


class _Pickler(pickle.Pickler):
    """Writes tensors by their content, modules by their name, and sets in order."""

    def __init__(self, file: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(file, protocol=4)
        # Equal values must give equal bytes, whether or not they are one object.
        self.fast = True
        self._names = names

    def persistent_id(self, thing: Any) -> object:
        """What stands for a thing."""
        if isinstance(thing, nn.Module):
            return ("module", self._names.get(id(thing)) or repr(skeleton_of(thing)))
        if isinstance(thing, Tensor):
            return ("tensor", str(thing.dtype), tuple(thing.shape), _content(thing))
        if isinstance(thing, set | frozenset):
            return ("set", sorted(map(repr, thing)))
        return None


def _content(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(plain.view(torch.uint8).numpy().data).digest()
