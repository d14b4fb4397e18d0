"""One number that all logits are divided by, chosen on held-out images and written into the last layer's weights."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.errors import DatasetError, InvalidArgument, ModelError
from holdfast.train.objectives.certified import bound_weights
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
    """The temperature with the least certified Brier score at a radius of sigma, over noisy copies of ``data``.

    Certified scores fall with the radius, so that a temperature that suits the image itself is too high for them. The data must
    be held out: on images that were trained on, a network seems surer than it is on others.

    Source:
        Guo et al. 2017, "On Calibration of Modern Neural Networks", with what can be certified in the place of the network's
        own score.
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
    losses = [certified_brier(logits / temperature, labels, 1.0) for temperature in CANDIDATES]
    return CANDIDATES[int(np.argmin(losses))]


def certified_brier(logits: Tensor, labels: Tensor, ratio: float) -> float:
    """Average over images of the largest ``sum_k (p_k - [k = y])^2`` at a radius of ``ratio`` sigma, p the average scores there.

    The predicted class's score q is within Theorem 2's bounds l and u, as if the copies (copies, images, classes) were all there
    is. If it is right, the rest may be another class's: ``2 (1 - l)^2``. If it is wrong, another wrong class may have the rest,
    ``1 + q^2 + (1 - q)^2`` at q = l or q = u; of two classes, the label has it: ``2 u^2``.
    """
    copies, _, classes = logits.shape
    scores = logits.double().softmax(2)
    predicted = scores.mean(0).argmax(1)
    ordered = scores.gather(2, predicted.expand(copies, -1)[..., None])[..., 0].sort(0, descending=True).values
    weights = torch.from_numpy(bound_weights(copies, ratio))
    lower, upper = weights @ ordered, weights.flip(0) @ ordered
    wrong = 1 + torch.maximum(lower**2 + (1 - lower) ** 2, upper**2 + (1 - upper) ** 2)
    wrong = wrong if classes > 2 else 2 * upper**2
    return float(torch.where(predicted == labels, 2 * (1 - lower) ** 2, wrong).mean())


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
