"""The training loss: cross-entropy on noisy copies, their disagreement and their entropy; and augmentation by shifts."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from holdfast.train.recipe import Recipe


def noisy_loss(logits: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """Average loss over the recipe's ``copies`` groups of rows, group after group, each in the order of ``labels``.

    To the cross-entropy come ``consistency`` times the divergence of each copy's prediction from the average of an image's
    copies, and ``sharpness`` times the entropy of that average.

    Source:
        Jeong & Shin 2020, "Consistency Regularization for Certified Robustness of Smoothed Classifiers", equation 8.
    """
    copies = recipe.copies
    loss = functional.cross_entropy(logits, labels.repeat(copies) if copies > 1 else labels)
    if recipe.consistency == 0 and recipe.sharpness == 0:
        return loss
    logs = logits.log_softmax(1).reshape(copies, len(labels), -1)
    average = logs.logsumexp(0) - math.log(copies)
    weights = average.exp()
    divergence = (weights * (average - logs)).sum(2).mean()
    entropy = -(weights * average).sum(1).mean()
    return loss + recipe.consistency * divergence + recipe.sharpness * entropy


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
