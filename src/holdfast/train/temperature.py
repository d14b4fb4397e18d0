"""One number that all logits are divided by, chosen on held-out images and written into the last layer's weights."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from holdfast.errors import DatasetError, InvalidArgument, ModelError
from holdfast.validation import check_number
from holdfast.zoo.datasets.labelled import LabelledData

COPIES = 32
SHARE, FEWEST, MOST = 20, 200, 5000
"""Of so many images one is held out, at least and at most so many of them."""
CANDIDATES: tuple[float, ...] = tuple(2 ** (k / 8) for k in range(-32, 33))
_ROWS = 1024


@dataclass(frozen=True)
class Held:
    """Positions to train on, and positions held out to choose the temperature."""

    train: NDArray[np.int64]
    out: NDArray[np.int64]


def hold_out(data: LabelledData, seed: int) -> Held:
    """A twentieth of the images, drawn with the seed; too few to choose by are refused."""
    count = min(MOST, len(data) // SHARE)
    if count < FEWEST:
        raise DatasetError(
            f"{data.name}: choosing a temperature holds out one image in {SHARE}, and takes {FEWEST} of them or more; expected "
            f"at least {SHARE * FEWEST:,} images, got {len(data):,}; give the temperature as a number, or leave it out"
        )
    order = np.random.default_rng([seed, count]).permutation(len(data))
    return Held(np.sort(order[count:]), np.sort(order[:count]))


def choose_temperature(
    net: nn.Module, data: LabelledData, *, sigma: float, seed: int, device: torch.device, copies: int = COPIES
) -> float:
    """The temperature with the least log loss of the average score over noisy copies of ``data``.

    It must be held out: on images that were trained on, a network seems surer than it is on others.

    Source:
        Guo et al. 2017, "On Calibration of Modern Neural Networks", with the smoothed classifier's score in the place of the
        network's.
    """
    generator = torch.Generator(device).manual_seed(seed)
    each = max(1, _ROWS // copies)
    found: list[Tensor] = []
    net.eval()
    with torch.inference_mode():
        for start in range(0, len(data), each):
            positions = np.arange(start, min(start + each, len(data)))
            images = torch.from_numpy(data.batch(positions)).to(device).repeat(copies, 1, 1, 1)
            noise = torch.randn(images.shape, generator=generator, device=device)
            found.append(net(images + sigma * noise).float().unflatten(0, (copies, -1)).cpu())
    logits, labels = torch.cat(found, dim=1), torch.from_numpy(data.labels)
    losses = [smoothed_log_loss(logits / temperature, labels) for temperature in CANDIDATES]
    return CANDIDATES[int(np.argmin(losses))]


def smoothed_log_loss(logits: Tensor, labels: Tensor) -> float:
    """Of the scores' average over copies; logits are (copies, images, classes)."""
    average = logits.double().log_softmax(2).logsumexp(0) - math.log(len(logits))
    return float(functional.nll_loss(average, labels))


def apply_temperature(net: nn.Module, temperature: float, example: Tensor) -> None:
    """Divide the logits by a number, once and for all, in the weights of the last linear layer.

    The network is then one like any other: with its own fingerprint, saved, loaded, folded and compiled as before. A network
    whose logits do not come from its last linear layer is refused, by its answer to ``example``.
    """
    if not check_number("temperature", temperature, at_least=0) > 0:
        raise InvalidArgument(f"temperature must be positive, got {temperature!r}")
    net.eval()
    last = [module for module in net.modules() if isinstance(module, nn.Linear)][-1:]
    with torch.no_grad():
        expected = net(example) / temperature
        for parameter in (parameter for layer in last for parameter in layer.parameters()):
            parameter.div_(temperature)
        if not torch.allclose(net(example), expected, rtol=1e-3, atol=1e-3 / temperature):
            raise ModelError(
                f"the logits of {type(net).__name__} must come from its last linear layer for a temperature to be written into it"
            )
