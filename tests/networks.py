"""Small networks and inputs that tests share."""

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
    """Random images in [0, 1]."""
    return np.random.default_rng(seed).random((count, 1, 6, 6)).astype(np.float32)


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
