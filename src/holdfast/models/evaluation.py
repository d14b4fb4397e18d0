"""Evaluation mode for a while, for modules that several threads and classifiers may share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import torch
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
        begun = [module for module in mine if id(module) not in _held]
        for module in mine:
            module.training = False
            _held.setdefault(id(module), _Held(module)).users += 1
        for module in filter(_does_more, begun):
            module.train(False)
    try:
        yield
    finally:
        with _lock:
            for module in mine:
                held = _held[id(module)]
                held.users -= 1
                if held.users == 0:
                    del _held[id(module)]
                    _train(module)


def _does_more(module: nn.Module) -> bool:
    """Whether it does more than set flags when its mode changes."""
    return type(module).train is not nn.Module.train and not isinstance(module, torch.jit.ScriptModule)


def _train(module: nn.Module) -> None:
    """Training mode again, for this one alone."""
    if _does_more(module):
        flags = [(part, part.training) for part in module.modules()]
        module.train(True)
        for part, flag in flags:
            part.training = flag
    module.training = True
