"""Replicas: copies of a module with Python state of their own and the module's weights, one for each worker."""

import copy
import io
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Snapshot:
    """A module as it is now, pickled without its weights; replicas are loaded from it.

    Everything that the module keeps is copied into each replica: attributes, containers, tensors that are no weights, hooks
    that are methods. So replicas can run in several threads, each as the module would alone.

    Raises:
        pickle.PicklingError, or what foreign code raises, for a module that cannot be copied so: it holds a lambda, a closure,
        a lock or an open file; or a function hangs on it as a hook, and may keep what it sees anywhere.

    Attributes:
        other_tensors: whether it keeps tensors that are no weights, and may write to them while it runs.
        scripted: whether some of it is TorchScript, which torch copies, and does not compile.
    """

    def __init__(self, net: nn.Module) -> None:
        modules = list(net.modules())
        hooks = [hook for module in modules for kind in _HOOKS for hook in getattr(module, kind, {}).values()]
        self.scripted = any(isinstance(module, torch.jit.ScriptModule) for module in modules)
        if any(isinstance(hook, FunctionType) for hook in hooks):
            raise pickle.PicklingError("a function as a hook")
        written = io.BytesIO()
        writer = _Writer(written, weights_of(net))
        writer.dump(net)
        self._written, self._left_out, self.other_tensors = written.getvalue(), writer.left_out, writer.other_tensors

    def load(self, *, share: bool = True, own_classes: bool = False) -> nn.Module:
        """A replica in evaluation mode; its parameters and buffers are the module's own tensors if ``share``, else copies.

        With ``own_classes`` each class outside torch becomes a subclass of its own: a module may keep something on its class.
        """
        copies: dict[int, Tensor] = {}

        def weight(tensor: Tensor) -> Tensor:
            return tensor if share else copies.setdefault(id(tensor), _copied(tensor))

        def given_for(thing: Any) -> Any:
            if isinstance(thing, type):
                return _subclass(thing) if own_classes else thing
            return _script_copy(thing, weight) if isinstance(thing, torch.jit.ScriptModule) else weight(thing)

        with torch.inference_mode(False):  # what is copied in inference mode could never be written to again
            given = list(map(given_for, self._left_out))
            made: nn.Module = _Reader(io.BytesIO(self._written), given).load()
            return made.eval()


class _Writer(pickle.Pickler):
    """Leaves weights, classes and TorchScript out, and keeps them in order."""

    def __init__(self, file: io.BytesIO, weights: list[Tensor]) -> None:
        super().__init__(file, protocol=5)
        self._weights = {id(tensor) for tensor in weights}
        self._memory = {tensor.untyped_storage().data_ptr() for tensor in weights}
        self._places: dict[int, int] = {}
        self.left_out: list[Any] = []
        self.other_tensors = False

    def persistent_id(self, thing: Any) -> int | None:
        """Where a thing is kept; None if it is written. A view of a weight would not follow it, and is refused."""
        if not isinstance(thing, type | torch.jit.ScriptModule) and id(thing) not in self._weights:
            if isinstance(thing, Tensor):
                self.other_tensors = True
                if thing.numel() and thing.untyped_storage().data_ptr() in self._memory:
                    raise pickle.PicklingError("a tensor that shares its memory with a weight")
            return None
        if id(thing) not in self._places:
            self._places[id(thing)] = len(self.left_out)
            self.left_out.append(thing)
        return self._places[id(thing)]


class _Reader(pickle.Unpickler):
    """Puts what was left out, or its copies, in its places."""

    def __init__(self, file: io.BytesIO, given: list[Any]) -> None:
        super().__init__(file)
        self._given = given

    def persistent_load(self, pid: Any) -> Any:
        """What belongs there."""
        return self._given[pid]


def _copied(weight: Tensor) -> Tensor:
    made = weight.detach().clone()
    return nn.Parameter(made, requires_grad=False) if isinstance(weight, nn.Parameter) else made


def _script_copy(script: torch.jit.ScriptModule, weight: Callable[[Tensor], Tensor]) -> torch.jit.ScriptModule:
    """With attributes of its own, as torch copies them, and the weights that it is given for the script's."""
    made = copy.deepcopy(script)
    for mine, theirs in zip(made.modules(), script.modules(), strict=True):
        for name, tensor in (*theirs._parameters.items(), *theirs._buffers.items()):
            setattr(mine, name, None if tensor is None else weight(tensor))
    return made


def _subclass(kind: Any) -> Any:
    """A class of the same name, with copies of what a module may write into; classes of torch keep nothing."""
    if not issubclass(kind, nn.Module) or kind.__module__.partition(".")[0] == "torch":
        return kind
    state = (list, dict, set, bytearray, np.ndarray, Tensor)
    held = {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, state) and not name.startswith("__")
    }
    named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind)(kind.__name__, (kind,), {**copy.deepcopy(held), **named})


def weights_of(net: nn.Module) -> list[Tensor]:
    """Parameters and buffers, each once, in an order that a module shares with its replicas."""
    each = (tensor for module in net.modules() for tensor in (*module._parameters.values(), *module._buffers.values()))
    return list({id(tensor): tensor for tensor in each if tensor is not None}.values())


def versions_of(weights: list[Tensor]) -> tuple[int, ...]:
    """How often each was written to; tensors made in inference mode do not count what is written to them."""
    return tuple(-1 if tensor.is_inference() else tensor._version for tensor in weights)
