"""Which network this is: a hash of a module's structure and weights, the same in every process."""

import hashlib
import io
import pickle
import sys
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

_TORCHS = frozenset(("_parameters", "_buffers", "_modules", "training"))
"""Attributes of a module in which torch keeps what it holds."""
_HOOKS = frozenset(vars(nn.Module())) - _TORCHS
"""What every module has, and hardly any uses: left out where empty."""
_TRACED = frozenset(vars(fx.GraphModule({}, fx.Graph()))) - _TORCHS - _HOOKS
"""What a traced module keeps beside them: its code says it all."""
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_EMPTY = frozenset((dict, OrderedDict, list, set))


def fingerprint(net: nn.Module) -> str | None:
    """SHA-256 of the structure and of every parameter and buffer by name; None if the module cannot be compared."""
    structure = structure_hash(net)
    if structure is None:
        return None
    digest = hashlib.sha256(structure)
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        digest.update(f"\n{name} ".encode())
        digest.update(_content(tensor))
    return digest.hexdigest()


def content_hash(thing: object, names: Mapping[int, str] = MappingProxyType({})) -> str | None:
    """SHA-256 of an object's content, the same in every process; None if it cannot be told. Modules with names count by these."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, names).dump(thing)
    except Exception:  # foreign objects: whatever stops them from being written down
        return None
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def structure_hash(net: nn.Module) -> bytes | None:
    """Equal for modules that differ in nothing but their weights and training flags; None if that cannot be told.

    Classes, attributes, hooks, tensors that are neither parameters nor buffers, modules that are kept where torch does not
    look (with their weights), the names, shapes and types of weights, and what is shared, all count. Functions and classes
    count by their names. A function that cannot be found by its name (a lambda, a closure) makes the module one that cannot
    be compared.
    """
    modules = _own_modules(net)
    names = {id(module): name for name, module in modules}
    parts: list[object] = []
    shared: dict[int, int] = {}
    for name, module in modules:
        if isinstance(module, torch.jit.ScriptModule):
            parts.append((name, _script(module)))
            continue
        held = vars(module)
        if isinstance(module, fx.GraphModule):
            held = {key: value for key, value in held.items() if key not in _TRACED} | {"code": module.code}
        own = [key for key in held if key not in _TORCHS | _HOOKS] + [
            key for key in held if key in _HOOKS and held[key]
        ]
        plain = {key: held[key] for key in own if _is_plain(held[key])}
        rest = {key: held[key] for key in own if key not in plain}
        tensors = [
            (key, str(tensor.dtype), tuple(tensor.shape), shared.setdefault(id(tensor), len(shared)))
            for key, tensor in (*module._parameters.items(), *module._buffers.items())
            if tensor is not None
        ]
        children = [(key, names[id(child)]) for key, child in module._modules.items() if child is not None]
        kind = type(module)
        parts.append(repr((name, (kind.__module__, kind.__qualname__, 0), children, tensors, plain)))
        if rest:
            parts.append(rest)
    written = content_hash(parts, names)
    return None if written is None else bytes.fromhex(written)


def _own_modules(net: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every module by its name; TorchScript as a whole."""
    found = list(net.named_modules())
    scripts = [name for name, each in found if isinstance(each, torch.jit.ScriptModule)]
    return [
        (name, each)
        for name, each in found
        if not any(name != script and name.startswith(script and f"{script}.") for script in scripts)
    ]


def _script(module: torch.jit.ScriptModule) -> str:
    """Of TorchScript as torch writes it, in evaluation mode, whether it was made here or read from a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have torch.export
        read = torch.jit.load(io.BytesIO(module.save_to_buffer()), map_location="cpu")  # type: ignore[no-untyped-call]
    return hashlib.sha256(read.eval().save_to_buffer()).hexdigest()


def _is_plain(value: object) -> bool:
    """Whether a value is all in what Python prints of it: most of a module's attributes are."""
    kind = type(value)
    if kind in _PLAIN or (kind in _EMPTY and not value):
        return True
    return isinstance(value, tuple) and kind is tuple and _PLAIN.issuperset(map(type, value))


class _Pickler(pickle.Pickler):
    """Writes tensors by their content, modules and functions by their names, and sets in order."""

    def __init__(self, file: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(file, protocol=4)
        # Equal values must give equal bytes, whether or not they are one object.
        self.fast = True
        self._names = names

    def persistent_id(self, thing: Any) -> object:
        """What stands for a thing."""
        if isinstance(thing, nn.Module):
            if id(thing) in self._names:
                return ("module", self._names[id(thing)])
            # Its weights are nobody's parameters: they count as content.
            stranger = fingerprint(thing), structure_hash(thing)
            if None in stranger:
                raise pickle.PicklingError("a module that cannot be compared")
            return ("stranger", stranger)
        if isinstance(thing, MethodType) and getattr(type(thing.__self__), thing.__name__, None) is not thing.__func__:
            raise pickle.PicklingError("a method under a name that is not its own")
        if isinstance(thing, FunctionType):
            if _by_name(thing) is not thing:
                raise pickle.PicklingError("a function that cannot be found by its name")
            return ("function", thing.__module__, thing.__qualname__, 0)
        if isinstance(thing, Tensor):
            return ("tensor", str(thing.dtype), tuple(thing.shape), _content(thing))
        if type(thing) is np.ndarray and thing.dtype.names:  # what is between the fields is nobody's
            fields = [(name, np.ascontiguousarray(thing[name]).tobytes()) for name in thing.dtype.names]
            return ("fields", thing.shape, [str(thing.dtype[name]) for name in thing.dtype.names], fields)
        if isinstance(thing, set | frozenset):
            return ("set", sorted(map(repr, thing)))
        return None


def _by_name(function: FunctionType) -> object:
    """What is found under a function's name now."""
    found: object = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _content(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(plain.view(torch.uint8).numpy().data).digest()
