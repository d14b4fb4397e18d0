"""Images mirrored and shifted."""

import torch
from torch import Tensor
from torch.nn import functional


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
