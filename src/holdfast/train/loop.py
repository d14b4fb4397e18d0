"""Training with Gaussian noise: the network learns on the copies it will be asked about.

Noise is added to pixels in [0, 1], before the network's own normalisation layer, with the sigma used to certify.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from holdfast.errors import DatasetError, InvalidArgument
from holdfast.progress import OnDone, unseen
from holdfast.validation import check_count, check_sigma
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.labelled import LabelledData, LabelledInputs


@dataclass(frozen=True)
class Recipe:
    """How to train; everything the weights depend on besides the data and the architecture."""

    sigma: float
    epochs: int = 20
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        check_sigma(self.sigma)
        check_count("epochs", self.epochs)
        check_count("batch", self.batch, at_least=2)
        check_count("seed", self.seed, at_least=0)
        if not 0 < self.learning_rate < 1:
            raise InvalidArgument(f"learning rate must be in (0, 1), got {self.learning_rate}")


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data came to, on noisy copies."""

    number: int
    loss: float
    accuracy: float


def architecture_for(name: str, data: LabelledData) -> Architecture:
    """The named architecture with the data's sizes, if the data can be trained on."""
    if len(data.shape) != 3:
        raise InvalidArgument(f"{name} takes images, got inputs of shape {data.shape}")
    channels, height, width = data.shape
    if height != width:
        raise InvalidArgument(f"{name} takes square images, got {height} x {width}; crop or pad them first")
    return Architecture(name, channels, height, int(data.labels.max()) + 1)


def train(
    architecture: Architecture,
    data: LabelledData,
    recipe: Recipe,
    *,
    device: torch.device,
    on_step: OnDone = unseen,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> nn.Module:
    """Train from scratch with one fresh noisy copy of every image an epoch, mirrored half of the time."""
    _check_data(data)
    torch.manual_seed(recipe.seed)
    order = np.random.default_rng(recipe.seed)
    net = architecture.build().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * math.ceil(len(data) / recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.learning_rate, total_steps=steps, pct_start=0.2
    )
    net.train()
    for number in range(1, recipe.epochs + 1):
        loss_sum, correct = 0.0, 0
        for positions in np.array_split(order.permutation(len(data)), math.ceil(len(data) / recipe.batch)):
            images = torch.from_numpy(data.batch(positions)).to(device)
            labels = torch.from_numpy(data.labels[positions]).to(device)
            mirrored = torch.rand(len(images), 1, 1, 1, device=device) < 0.5
            images = torch.where(mirrored, images.flip(-1), images)
            logits = net(images + recipe.sigma * torch.randn_like(images))
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            loss_sum += loss.item() * len(images)
            correct += int((logits.argmax(1) == labels).sum())
            on_step(len(images))
        on_epoch(Epoch(number, loss_sum / len(data), correct / len(data)))
    return net.eval()


def _check_data(data: LabelledData) -> None:
    if len(np.unique(data.labels)) < 2:
        raise DatasetError(f"{data.name}: a classifier needs at least two classes, got only class {data.labels[0]}")
    if not isinstance(data, LabelledInputs) or data.images.dtype == np.uint8:
        return
    low, high = float(data.images.min()), float(data.images.max())
    if not (low >= -0.5 and high <= 1.5):
        raise DatasetError(
            f"{data.name}: images must be in [0, 1], got values from {low:.3g} to {high:.3g}; divide bytes by 255, and leave "
            f"normalisation to the network's first layer"
        )
