"""Evaluation mode for a while, for modules that several threads and classifiers may share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from torch import nn


@dataclass
class _Held:
    """A module that was in training mode, and how many need it in evaluation mode."""

    module: nn.Module
    users: int = 0


_lock = Lock()
_held: dict[int, _Held] = {}


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode; each submodule's flag is put back when the last who needs that submodule is done."""
    with _lock:
        mine = [module for module in net.modules() if getattr(module, "training", False) or id(module) in _held]
        for module in mine:
            module.training = False
            _held.setdefault(id(module), _Held(module)).users += 1
    try:
        yield
    finally:
        with _lock:
            for module in mine:
                held = _held[id(module)]
                held.users -= 1
                if held.users == 0:
                    del _held[id(module)]
                    module.training = True
