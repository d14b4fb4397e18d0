"""Small networks and inputs that tests share."""

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def small_net(classes: int = 4, seed: int = 0) -> nn.Module:
    """A convolutional network with random weights and confident answers, for (1, 6, 6) inputs."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(180, classes))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.5)
    return net


def images(count: int, seed: int = 1) -> NDArray[np.float32]:
    """Random images of bytes, in [0, 1]."""
    levels = np.rint(255 * np.random.default_rng(seed).random((count, 1, 6, 6)))
    return levels.astype(np.float32) / np.float32(255)


class Recorder(nn.Module):
    """Remembers the sizes of the batches it was given."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.rows: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        answer: Tensor = self.net(x)
        return answer


class Turned(nn.Module):
    """Another network's classes, the other way round."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.net(x)
        return answer.flip(1)


class Knobs(nn.Module):
    """A network with something in it besides parameters."""

    scale: Tensor
    net: Any

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.temperature = 1.0
        self.weights = [1.0, 1.0]
        self.plain = torch.ones(1)
        self._hidden = 1.0
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        factor = self._hidden * self.weights[0] * self.scale * self.plain / self.temperature
        answer: Tensor = self.net(x) * factor
        return answer


def _train(net: Knobs, *, fused: bool) -> None:
    """A fused optimiser writes to weights behind torch's version counters."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, fused=fused)
    with torch.inference_mode(False), torch.enable_grad():
        nn.functional.cross_entropy(net(torch.from_numpy(images(4))), torch.tensor([3, 3, 3, 3])).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _negated(net: Knobs, x: Tensor) -> Tensor:
    return -Knobs.forward(net, x)


CHANGES_IN_PLACE: dict[str, Callable[[Knobs], object]] = {
    "an optimiser": lambda net: _train(net, fused=False),
    "a fused optimiser": lambda net: _train(net, fused=True),
    ".data": lambda net: [each.data.mul_(-0.5) for each in net.parameters()],
    "NumPy": lambda net: np.copyto(next(net.parameters()).detach().numpy(), 0.3),
    "a buffer": lambda net: net.scale.fill_(-1.0),
    "load_state_dict": lambda net: net.net.load_state_dict(small_net(seed=5).state_dict()),
}
CHANGES_OF_STRUCTURE: dict[str, Callable[[Knobs], object]] = {
    "an attribute": lambda net: setattr(net, "temperature", 9.0),
    "a hidden attribute": lambda net: setattr(net, "_hidden", -1.0),
    "a list": lambda net: net.weights.insert(0, -1.0),
    "a plain tensor": lambda net: net.plain.fill_(-1.0),
    "a hook": lambda net: net.net.register_forward_hook(lambda _module, _inputs, answer: -answer),
    "a part": lambda net: net.net.__setitem__(1, nn.Tanh()),
    "a method": lambda net: setattr(net, "forward", MethodType(_negated, net)),
}
