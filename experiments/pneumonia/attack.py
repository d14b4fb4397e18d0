"""An adversary for the smoothed classifier: move each image so that its own class's average score falls.

With two classes that is all an adversary can want: who is right gets rejected or wrong, and who is wrong gets accepted.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.zoo.checkpoint import load_checkpoint

STEPS, NOISY_COPIES, AT_ONCE = 20, 16, 64


def attacked(
    weights: Path, images: NDArray[np.float32], labels: NDArray[np.int64], *, sigma: float, radius: float
) -> NDArray[np.float32]:
    """Projected gradient descent on the average score over noisy copies, within the l2 ball and within [0, 1]."""
    torch.manual_seed(0)
    net = load_checkpoint(weights).net.eval()
    moved = []
    for start in range(0, len(images), AT_ONCE):
        clean = torch.from_numpy(images[start : start + AT_ONCE])
        label = torch.from_numpy(labels[start : start + AT_ONCE]).repeat_interleave(NOISY_COPIES)
        x = clean.clone()
        for _ in range(STEPS):
            x.requires_grad_(True)
            copies = x.repeat_interleave(NOISY_COPIES, dim=0)
            scores = torch.softmax(net(copies + sigma * torch.randn_like(copies)), dim=1)
            (gradient,) = torch.autograd.grad(scores.gather(1, label[:, None]).sum(), x)
            with torch.no_grad():
                step = gradient / _norm(gradient).clamp_min(1e-12)
                away = x - 0.25 * radius * step - clean
                # A hair inside: rounding to float32 must not leave the ball. Clipping moves towards the clean image.
                away = away * (0.9999 * radius / _norm(away).clamp_min(1e-12)).clamp_max(1.0)
                x = (clean + away).clamp(0.0, 1.0)
        moved.append(x.numpy())
    return np.concatenate(moved)


def _norm(x: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(x, dim=(1, 2, 3), keepdim=True)
    return norm
