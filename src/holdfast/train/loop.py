"""Training with Gaussian noise: the network learns on the copies it will be asked about.

Noise is added to pixels in [0, 1], before the network's own normalisation layer, with the sigma used to certify.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.errors import DatasetError, InvalidArgument
from holdfast.models.fast.compile import quiet_compiler
from holdfast.progress import OnDone, ignore
from holdfast.train.augmentation import mirrored, shifted
from holdfast.train.capture import Captured, compile_blocks, training_stream
from holdfast.train.recipe import TRAINING_PRECISIONS, Epoch, Recipe
from holdfast.train.state import StateFile, TrainingState
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.labelled import LabelledData, LabelledInputs


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
    compiled: bool = False,
    held_out: LabelledData | None = None,
    file: StateFile | None = None,
    on_step: OnDone = ignore,
    on_epoch: Callable[[Epoch], None] = ignore,
) -> nn.Module:
    """Train from scratch with fresh noisy copies of every image in each epoch, mirrored half of the time.

    Data in memory is kept on the device as it is stored, and the device is asked for numbers once an epoch. On a GPU each
    step's passes are one CUDA graph; ``compiled`` compiles the blocks that a network repeats. The accuracy on images
    that are ``held_out`` is told with each epoch, and nothing depends on it. With a ``file``, training goes on after its last
    epoch, and each further epoch is saved there.
    """
    _check_data(data)
    if recipe.shift >= architecture.size:
        raise InvalidArgument(
            f"shift must be less than the images' {architecture.size} pixels, or nothing of them is left, got {recipe.shift}"
        )
    torch.manual_seed(recipe.seed)
    order = np.random.default_rng(recipe.seed)
    net = architecture.build().to(device).train()
    on_gpu = device.type == "cuda"
    if on_gpu:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if compiled:
        compile_blocks(net)
    passes = _Passes(net, recipe, device)
    backward = Captured(passes.backward) if on_gpu else passes.backward
    full = on_gpu or compiled
    per_epoch = max(1, len(data) // recipe.batch) if full else math.ceil(len(data) / recipe.batch)
    optimizer, schedule = _optimizer(net, recipe, steps=recipe.epochs * per_epoch)
    read, answers = _reader(data, device), torch.from_numpy(data.labels).to(device)
    state = TrainingState(net, optimizer, schedule, order, device)
    if file is not None:
        file.restore(state)
    finished = file.epochs if file is not None else []
    begun = time.perf_counter() - (finished[-1].seconds if finished else 0.0)
    with training_stream(device), quiet_compiler() if compiled else nullcontext():
        for number in range(len(finished) + 1, recipe.epochs + 1):
            # Recorded or compiled steps have full batches, and what is left over is left out; others nearly one size.
            shuffled = order.permutation(len(data))[: per_epoch * recipe.batch]
            for positions in np.array_split(shuffled, per_epoch):
                chosen = torch.from_numpy(positions).to(device)
                backward(read(chosen), answers[chosen])
                optimizer.step()
                schedule.step()
                on_step(len(positions))
            epoch = passes.epoch(number, seen=len(shuffled))
            if held_out is not None:
                epoch = replace(epoch, held_out=passes.accuracy(held_out))
            epoch = replace(epoch, seconds=time.perf_counter() - begun)
            if file is not None:
                file.save(state, epoch)
            on_epoch(epoch)
    return net.eval()


class _Passes:
    """The forward and backward pass of a step, and what an epoch's passes come to."""

    def __init__(self, net: nn.Module, recipe: Recipe, device: torch.device) -> None:
        self._net, self._recipe, self._device = net, recipe, device
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), dtype=torch.int64, device=device)

    def backward(self, images: Tensor, labels: Tensor) -> None:
        """Leave the loss's gradients at the parameters; read nothing back from the device."""
        recipe, objective = self._recipe, self._recipe.objective
        images = shifted(mirrored(images), recipe.shift)
        standard = torch.randn_like(images.repeat(objective.copies, 1, 1, 1))
        noise = recipe.sigma * standard.reshape(objective.copies, *images.shape)
        images = objective.perturbed(self._predict_frozen, images, noise, labels)
        logits = self._predict((images + noise).flatten(0, 1))
        loss = objective.loss(logits, labels, recipe.sigma)
        self._net.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._loss += loss.detach().double() * len(labels)
        self._correct += (logits.detach()[0].argmax(1) == labels).sum()

    def epoch(self, number: int, *, seen: int) -> Epoch:
        """Averages since the last one."""
        found = Epoch(number, float(self._loss) / seen, int(self._correct) / seen)
        self._loss.zero_()
        self._correct.zero_()
        return found

    def accuracy(self, data: LabelledData) -> float:
        """On one noisy copy of each image, the same at every call. Weights, averages and random numbers stay as they are."""
        recipe, device = self._recipe, self._device
        generator = torch.Generator(device).manual_seed(recipe.seed)
        read, labels = _reader(data, device), torch.from_numpy(data.labels).to(device)
        correct = torch.zeros((), dtype=torch.int64, device=device)
        self._net.eval()
        # Compiling blocks once more, for this mode and size, would take longer than these few images.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            for positions in np.array_split(np.arange(len(data)), math.ceil(len(data) / recipe.batch)):
                chosen = torch.from_numpy(positions).to(device)
                images = read(chosen)
                noise = recipe.sigma * torch.randn(images.shape, generator=generator, device=device)
                correct += (self._logits(images + noise).argmax(1) == labels[chosen]).sum()
        self._net.train()
        return int(correct) / len(data)

    def _predict(self, noisy: Tensor) -> Tensor:
        logits = self._logits(noisy)
        return logits.reshape(self._recipe.objective.copies, -1, logits.shape[-1])

    def _logits(self, noisy: Tensor) -> Tensor:
        if self._device.type == "cuda":
            noisy = noisy.contiguous(memory_format=torch.channels_last)
        low = TRAINING_PRECISIONS[self._recipe.precision]
        with torch.autocast(self._device.type, low, enabled=low is not None, cache_enabled=False):
            logits: Tensor = self._net(noisy)
        return logits.float()

    def _predict_frozen(self, noisy: Tensor) -> Tensor:
        """For attacks: these leave weights and the averages of batch normalisation as they are."""
        self._net.eval().requires_grad_(False)
        logits = self._predict(noisy)
        self._net.train().requires_grad_(True)
        return logits


def _optimizer(
    net: nn.Module, recipe: Recipe, *, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.OneCycleLR]:
    rate = recipe.learning_rate
    rise = 0.2 if steps != 5 else 0.3  # of five steps, a fifth rises in no time, by which torch would divide
    if recipe.optimizer == "adamw":
        adam = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=recipe.weight_decay)
        return adam, torch.optim.lr_scheduler.OneCycleLR(adam, max_lr=rate, total_steps=steps, pct_start=rise)
    sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=recipe.weight_decay)
    return sgd, torch.optim.lr_scheduler.OneCycleLR(
        sgd, max_lr=rate, total_steps=steps, pct_start=rise, cycle_momentum=False
    )


def _reader(data: LabelledData, device: torch.device) -> Callable[[Tensor], Tensor]:
    """From positions to images in [0, 1] on the device: kept there as they are stored, or read one after the other."""
    if not isinstance(data, LabelledInputs):
        return lambda chosen: torch.from_numpy(data.batch(chosen.cpu().numpy())).to(device)
    stored = torch.tensor(data.images, device=device)
    if stored.dtype == torch.uint8:
        return lambda chosen: stored[chosen].float() / 255.0
    return lambda chosen: stored[chosen].float()


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
