"""Modules that keep what they work with in some place between two lines, where another worker could overwrite it."""

import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

GLOBAL: dict[str, Any] = {"local": threading.local()}


class Clean(nn.Module):
    """Two layers. Between them others write down what they have, let the other worker run, and read it again."""

    buffer: Tensor
    hidden: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Sequential(nn.Flatten(), nn.Linear(36, 8)), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.keep(self.first(x))
        time.sleep(0.001)
        return 5 * self.last(self.kept())  # type: ignore[no-any-return]

    def keep(self, hidden: Tensor) -> None:
        GLOBAL["local"].hidden = hidden

    def kept(self) -> Any:
        return GLOBAL["local"].hidden


class Keeping(Clean):
    """Keeps it in some place."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place, self.calls = place, 0
        self.context = SimpleNamespace(space=None)
        self.nested: dict[str, list[dict[str, Tensor]]] = {"inner": [{}]}
        self.stack: list[Tensor] = []
        self.tensor = torch.empty(64, 8)
        self.register_buffer("buffer", None)

    def keep(self, hidden: Tensor) -> None:
        self.calls += 1
        PLACES[self.place][0](self, hidden)

    def kept(self) -> Any:
        return PLACES[self.place][1](self)

    def remember(self, _: nn.Module, __: object, hidden: Tensor) -> None:
        self.hidden = hidden


class OnOneLine(Keeping):
    def forward(self, x: Tensor) -> Any:
        return 5 * self.last(vars(self.context).update(space=self.first(x)) or time.sleep(0.001) or self.context.space)  # type: ignore[func-returns-value]


def fill_workspace(net: Any, hidden: Tensor) -> None:
    if net.context.space is None or net.context.space.shape != hidden.shape:
        net.context.space = torch.empty_like(hidden)
    net.context.space.copy_(hidden)


def fill_tensor(net: Any, hidden: Tensor) -> None:
    net.rows = len(hidden)
    net.tensor[: net.rows].copy_(hidden)


PLACES: dict[str, tuple[Callable[[Any, Tensor], object], Callable[[Any], Tensor]]] = {
    "itself": (lambda net, hidden: setattr(net, "hidden", hidden), lambda net: net.hidden),
    "a buffer": (lambda net, hidden: setattr(net, "buffer", hidden), lambda net: net.buffer),
    "an object": (lambda net, hidden: setattr(net.context, "hidden", hidden), lambda net: net.context.hidden),
    "nested": (lambda net, hidden: net.nested["inner"][0].update(x=hidden), lambda net: net.nested["inner"][0]["x"]),
    "a workspace": (fill_workspace, lambda net: net.context.space),
    "a tensor": (fill_tensor, lambda net: net.tensor[: net.rows]),
    "a stack": (lambda net, hidden: net.stack.append(hidden), lambda net: net.stack.pop()),
    "its class": (lambda net, hidden: setattr(type(net), "hidden", hidden), lambda net: type(net).hidden),
    "the hook's": (lambda *_: None, lambda net: net.hidden),
    "a global": (lambda *_: None, lambda _: GLOBAL["hidden"]),
}


class OtherWhenCopied(Clean):
    """Its copies answer otherwise, so that it is run itself."""

    sign = 1.0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "sign": -self.sign}

    def forward(self, x: Tensor) -> Tensor:
        return self.sign * super().forward(x)


def keeping(place: str, **more: Callable[[Keeping], Any]) -> nn.Module:
    """With further attributes, or a hook, that are made of the module."""
    net = Keeping(place)
    for name, make in more.items():
        if name == "hook":
            net.first.register_forward_hook(make(net))
        else:
            setattr(net, name, make(net))
    return net


def remember(_: nn.Module, __: object, hidden: Tensor) -> None:
    GLOBAL["hidden"] = hidden


HOOKS = ("the hook's", "a global")
REPLICATED: dict[str, Callable[[], nn.Module]] = {
    **{place: partial(keeping, place) for place in PLACES if place not in HOOKS},
    "nothing": Clean,
    "one line": partial(OnOneLine, ""),
    "a method as a hook": lambda: keeping("the hook's", hook=lambda net: net.remember),
    "a forward of its own": lambda: keeping("itself", forward=lambda net: partial(Clean.forward, net)),
}
RUN_ITSELF: dict[str, Callable[[], nn.Module]] = {
    "another copy": OtherWhenCopied,
    "a closure as a hook": lambda: keeping("the hook's", hook=lambda net: lambda *given: net.remember(*given)),
    "a function as a hook": lambda: keeping("a global", hook=lambda _: remember),
    "a lock": lambda: keeping("itself", lock=lambda _: threading.Lock()),
    "a lambda": lambda: keeping("itself", read=lambda net: lambda: net.hidden),
}
KINDS = {**REPLICATED, **RUN_ITSELF}
