"""What a module is apart from its weights, as bytes: to notice that it has become another one."""

import hashlib
import io
import marshal
import pickle
import sys
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

TORCHS = frozenset(("_parameters", "_buffers", "_modules", "training"))
"""Attributes of a module in which torch keeps what it holds."""
_HOOKS = frozenset(vars(nn.Module())) - TORCHS
"""What every module has, and hardly any uses: left out where empty, which saves most of the time."""
_EVERYWHERE = ("_global_forward_pre_hooks", "_global_forward_hooks")
_BEGINNINGS = ("__init__", "__setstate__")
"""Torch's compiler replaces them when it is first used; they do nothing to a module that is there already."""
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_EMPTY = frozenset((dict, OrderedDict, list, set))


def skeleton_of(net: nn.Module, *, anywhere: bool = False) -> bytes | None:
    """Equal for modules that differ in nothing but their weights and training flags; None if that cannot be told.

    Classes, attributes, hooks, tensors that are neither parameters nor buffers, modules that are kept where torch does not
    look (with their weights), the names, shapes and types of weights, and what is shared, all count. Functions, classes and
    their methods count as the objects they are, since another one may have come under the same name; for comparing
    ``anywhere``, beyond this process, they count by their names. A function that cannot be found by its name (a lambda, a
    closure) makes the module one that cannot be compared.
    """
    modules = list(net.named_modules())
    names = {id(module): name for name, module in modules}
    parts: list[object] = [] if anywhere else [_habits({type(module) for _, module in modules})]
    shared: dict[int, int] = {}
    for name, module in modules:
        plain: dict[str, object] = {}
        rest: dict[str, object] = {}
        held = vars(module)
        own, hooks = _told_apart(tuple(held))
        if any(map(held.__getitem__, hooks)):
            own = (*own, *(key for key in hooks if held[key]))
        for key in own:
            value = held[key]
            (plain if _is_plain(value) else rest)[key] = value
        tensors = [
            (key, str(tensor.dtype), tuple(tensor.shape), shared.setdefault(id(tensor), len(shared)))
            for key, tensor in (*module._parameters.items(), *module._buffers.items())
            if tensor is not None
        ]
        children = [(key, names[id(child)]) for key, child in module._modules.items() if child is not None]
        kind = type(module)
        which = (kind.__module__, kind.__qualname__, 0 if anywhere else id(kind))
        part = (name, which, children, tensors, plain)
        parts.append(repr(part) if anywhere else _written(part))
        if rest:
            parts.append(rest)
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, names, anywhere).dump(parts)
    except Exception:  # foreign objects: whatever stops them from being written down
        return None
    return hashlib.sha256(buffer.getvalue()).digest()


def _written(part: Any) -> object:
    """Equal for equal values in this process: what is fastest, where it can write them."""
    try:
        return marshal.dumps(part, 2)
    except ValueError:
        return repr(part)


@lru_cache(maxsize=1_024)
def _told_apart(keys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A module's own attributes, and those that every module has; most modules have the same as others of their class."""
    return tuple(key for key in keys if key not in TORCHS | _HOOKS), tuple(key for key in keys if key in _HOOKS)


def _habits(kinds: set[type]) -> str:
    """What classes do, as the objects that do it: a method may have been replaced, or a hook set for all modules."""
    found = []
    for kind in {base for each in kinds for base in each.__mro__}:
        for name, value in vars(kind).items():
            if (kind is nn.Module and name in _BEGINNINGS) or not (callable(value) or hasattr(value, "__get__")):
                continue
            found.append((id(kind), name, *_identity(value)))
    for name in _EVERYWHERE:
        found += [(0, name, *_identity(hook)) for hook in getattr(nn.modules.module, name, {}).values()]
    return repr(sorted(found))


def _identity(value: object) -> tuple[int, int]:
    """Which object it is, and its code as well: what was freed may leave its place to another."""
    return id(value), hash(getattr(value, "__code__", None))


def _is_plain(value: object) -> bool:
    """Whether a value is all in what Python prints of it: most of a module's attributes are, and printing is fast."""
    kind = type(value)
    if kind in _PLAIN or (kind in _EMPTY and not value):
        return True
    return isinstance(value, tuple) and kind is tuple and _PLAIN.issuperset(map(type, value))


def fingerprint(net: nn.Module) -> str | None:
    """SHA-256 of the skeleton and of every parameter and buffer by name; None if the module cannot be compared."""
    skeleton = skeleton_of(net, anywhere=True)
    if skeleton is None:
        return None
    digest = hashlib.sha256(skeleton)
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        digest.update(f"\n{name} ".encode())
        digest.update(_content(tensor))
    return digest.hexdigest()


class _Pickler(pickle.Pickler):
    """Writes tensors by their content, modules and functions by their names, and sets in order."""

    def __init__(self, file: io.BytesIO, names: Mapping[int, str], anywhere: bool) -> None:
        super().__init__(file, protocol=4)
        # Equal values must give equal bytes, whether or not they are one object.
        self.fast = True
        self._names = names
        self._anywhere = anywhere

    def persistent_id(self, thing: Any) -> object:
        """What stands for a thing."""
        if isinstance(thing, nn.Module):
            if id(thing) in self._names:
                return ("module", self._names[id(thing)])
            # Its weights are nobody's parameters, and nobody copies them: they count as content.
            stranger = fingerprint(thing), skeleton_of(thing, anywhere=self._anywhere)
            if None in stranger:
                raise pickle.PicklingError("a module that cannot be compared")
            return ("stranger", stranger)
        if isinstance(thing, MethodType) and getattr(type(thing.__self__), thing.__name__, None) is not thing.__func__:
            raise pickle.PicklingError("a method under a name that is not its own")
        if isinstance(thing, FunctionType):
            if _by_name(thing) is not thing:
                raise pickle.PicklingError("a function that cannot be found by its name")
            return ("function", thing.__module__, thing.__qualname__, 0 if self._anywhere else id(thing))
        if isinstance(thing, Tensor):
            return ("tensor", str(thing.dtype), tuple(thing.shape), _content(thing))
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
