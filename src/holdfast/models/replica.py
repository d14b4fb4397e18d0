"""Replicas: a copy of a module with Python state of its own and the module's weights, one for each worker."""

import copy
import io
import pickle
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def replica_of(net: nn.Module, *, share: bool, own_classes: bool = True) -> nn.Module | None:
    """A copy in evaluation mode; its parameters and buffers are the module's own tensors if ``share``, else copies.

    Everything else that the module keeps is copied: attributes, containers, tensors that are no weights, hooks that are
    methods, and with ``own_classes`` each class outside torch becomes a subclass of its own, since a module may keep
    something on its class. So replicas can run in several threads, each as the module would alone.

    Returns:
        None if the module cannot be copied so: it holds a lambda, a closure, a lock or an open file; a function hangs on
        it as a hook, and may keep what it sees anywhere; or it is TorchScript.
    """
    modules = list(net.modules())
    hooks = [hook for module in modules for kind in _HOOKS for hook in getattr(module, kind, {}).values()]
    if any(isinstance(module, torch.jit.ScriptModule) for module in modules) or any(
        isinstance(hook, FunctionType) for hook in hooks
    ):
        return None
    buffer = io.BytesIO()
    try:
        with torch.inference_mode(False):  # what is copied in inference mode could never be written to again
            writer = _Writer(buffer, net)
            writer.dump(net)
            buffer.seek(0)
            kept = [_own(each, share=share, own_classes=own_classes) for each in writer.kept]
            made: nn.Module = _Reader(buffer, kept).load()
            made.eval()
    except Exception:  # foreign code: whatever stops a copy, the module itself still runs
        return None
    return made


def holds_other_tensors(net: nn.Module) -> bool:
    """Whether a module that can be copied keeps tensors that are no weights; it may write to them while it runs."""
    writer = _Writer(io.BytesIO(), net)
    writer.dump(net)
    return writer.other_tensors


class _Writer(pickle.Pickler):
    """Leaves weights and classes out, and keeps them in order."""

    def __init__(self, file: io.BytesIO, net: nn.Module) -> None:
        weights = {id(tensor): tensor for tensor in weights_of(net)}
        super().__init__(file, protocol=5)
        self._weights = weights
        self._places = {tensor.untyped_storage().data_ptr() for tensor in weights.values()}
        self.other_tensors = False
        self._known: dict[int, int] = {}
        self.kept: list[Any] = []

    def persistent_id(self, thing: Any) -> int | None:
        """Where a thing is kept; None if it is written. A view of a weight would not follow it, and is refused."""
        if isinstance(thing, Tensor) and id(thing) not in self._weights:
            self.other_tensors = True
            if thing.numel() and thing.untyped_storage().data_ptr() in self._places:
                raise pickle.PicklingError("a tensor that shares its memory with a weight")
        if not (isinstance(thing, type) or id(thing) in self._weights):
            return None
        if id(thing) not in self._known:
            self._known[id(thing)] = len(self.kept)
            self.kept.append(thing)
        return self._known[id(thing)]


class _Reader(pickle.Unpickler):
    """Puts what was left out, or its copies, in its places."""

    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, pid: Any) -> Any:
        """What was kept there."""
        return self._kept[pid]


def _own(kept: Any, *, share: bool, own_classes: bool) -> Any:
    if isinstance(kept, type):
        foreign = issubclass(kept, nn.Module) and kept.__module__.partition(".")[0] != "torch"
        if not (own_classes and foreign):
            return kept
        held = {
            name: value
            for base in reversed(kept.__mro__)
            for name, value in vars(base).items()
            if _is_state(name, value)
        }
        named = {"__module__": kept.__module__, "__qualname__": kept.__qualname__}
        return type(kept)(kept.__name__, (kept,), {**copy.deepcopy(held), **named})
    if share:
        return kept
    copied = kept.detach().clone()
    return nn.Parameter(copied, requires_grad=False) if isinstance(kept, nn.Parameter) else copied


def _is_state(name: str, value: object) -> bool:
    """Whether an attribute of a class is something that a module may write into."""
    return not name.startswith("__") and isinstance(value, list | dict | set | bytearray | np.ndarray | Tensor)


def weights_of(net: nn.Module) -> list[Tensor]:
    """Parameters and buffers, each once, in an order that a module shares with its replicas."""
    found: dict[int, Tensor] = {}
    for module in net.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                found[id(tensor)] = tensor
    return list(found.values())


def versions_of(weights: list[Tensor]) -> tuple[int, ...]:
    """How often each was written to; tensors made in inference mode do not count what is written to them."""
    return tuple(-1 if tensor.is_inference() else tensor._version for tensor in weights)


def copy_weights(source: list[Tensor], target: list[Tensor]) -> None:
    """Between the weights of a module and of its replica, whatever their devices and types."""
    # One call for all tensors of a kind: a GPU would wait for hundreds of calls.
    alike: dict[tuple[torch.dtype, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
    for theirs, mine in zip(source, target, strict=True):
        some = alike.setdefault((theirs.dtype, mine.dtype), ([], []))
        some[0].append(theirs)
        some[1].append(mine)
    with torch.inference_mode(False), torch.no_grad():
        for sources, targets in alike.values():
            torch._foreach_copy_(targets, sources)
