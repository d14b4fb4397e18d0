"""What training minimises: cross-entropy on noisy copies, and how far the copies of one image disagree."""

import math

import torch
from torch import Tensor
from torch.nn import functional

_ENTROPY_WEIGHT = 0.5


def noisy_loss(logits: Tensor, labels: Tensor, *, copies: int, consistency: float) -> Tensor:
    """Average loss of ``copies`` groups of rows, group after group, each in the order of ``labels``.

    With ``consistency``, that times the divergence of each copy's prediction from their average is added, and half of
    the average's entropy.

    Source:
        Jeong & Shin 2020, "Consistency Regularization for Certified Robustness of Smoothed Classifiers", equation 8.
    """
    loss = functional.cross_entropy(logits, labels.repeat(copies) if copies > 1 else labels)
    if consistency == 0:
        return loss
    logs = logits.float().log_softmax(1).reshape(copies, len(labels), -1)
    average = logs.logsumexp(0) - math.log(copies)
    weights = average.exp()
    divergence = (weights * (average - logs)).sum(2).mean()
    entropy = -(weights * average).sum(1).mean()
    return loss + consistency * divergence + _ENTROPY_WEIGHT * entropy


def mirrored(images: Tensor) -> Tensor:
    """Each image as it is or mirrored, with even chances."""
    chosen = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(chosen, images.flip(-1), images)


def shifted(images: Tensor, most: int) -> Tensor:
    """Each image moved by its own random number of pixels, at most ``most`` in each direction; zeros move in."""
    if most == 0:
        return images
    count, _, height, width = images.shape
    padded = functional.pad(images, (most,) * 4)
    down, right = torch.randint(0, 2 * most + 1, (2, count, 1), device=images.device)
    rows = (down + torch.arange(height, device=images.device))[:, None, :, None]
    columns = (right + torch.arange(width, device=images.device))[:, None, None, :]
    which = torch.arange(count, device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return padded[which, channel, rows, columns]
