"""The attack: projected gradient descent on the average over noise, with restarts, for many inputs and radii at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.average import NoisyAverage
from holdfast.attacks.ball import Balls
from holdfast.errors import InvalidArgument
from holdfast.noise import rounded_table
from holdfast.validation import check_count

_WITHOUT_GRADIENTS = 16
"""Times as many copies where the model is known by its scores alone."""
_TO_CHOOSE = 8
"""Times as many copies to choose among restarts."""


@dataclass(frozen=True)
class Attack:
    """How hard to look for a point within the radius where the average is small.

    Every step goes to the point of the ball that lies farthest against the sum of all gradients so far, each of length one. In
    l2 that is projected gradient descent that stays on the sphere; in l1 it moves the few numbers that matter most.

    Guarantee:
        None: the average at the point found is an upper bound on the least one within the radius, and may be far above it.
    Source:
        H. Salman et al., "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers", NeurIPS 2019, section
        3 (gradients averaged over noise); C. Stein 1981 for models without gradients.

    Attributes:
        steps: gradients for each restart.
        copies: noisy copies for each gradient; 16 times as many for a model without gradients.
        restarts: starts, the first at the input itself, the others at random; the best is kept, chosen on further copies.
        clip: keep images within [0, 1]; False searches the whole ball, of which the certificate speaks.
    """

    steps: int = 10
    copies: int = 8
    restarts: int = 2
    clip: bool = True

    def __post_init__(self) -> None:
        for name in ("steps", "copies", "restarts"):
            check_count(name, getattr(self, name))
        if not isinstance(self.clip, bool):
            raise InvalidArgument(f"clip must be True or False, got {self.clip!r}")

    def points(
        self,
        average: NoisyAverage,
        balls: Balls,
        targets: Tensor,
        shape: torch.Size,
        streams: Sequence[np.random.Generator],
    ) -> NDArray[np.float32]:
        """A point of each ball where the average is small; ``streams`` are what each point's noise is drawn from."""
        found = [self._descend(average, balls, targets, shape, streams, at_random=k > 0) for k in range(self.restarts)]
        if len(found) == 1:
            return found[0]
        copies = self.copies_for(average) * _TO_CHOOSE
        added = _drawn(average, streams, (copies, *shape))
        values = [average.values(_shaped(each, shape), targets, added) for each in found]
        best = torch.stack(values).argmin(0).numpy()
        return np.asarray(np.stack(found)[best, np.arange(len(best))], dtype=np.float32)

    def copies_for(self, average: NoisyAverage) -> int:
        """For each gradient."""
        return self.copies * (1 if average.differentiable else _WITHOUT_GRADIENTS)

    def _descend(
        self,
        average: NoisyAverage,
        balls: Balls,
        targets: Tensor,
        shape: torch.Size,
        streams: Sequence[np.random.Generator],
        *,
        at_random: bool,
    ) -> NDArray[np.float32]:
        points = balls.centres.astype(np.float32)
        if at_random:
            points = balls.points(balls.farthest(np.stack([each.standard_normal(points.shape[1]) for each in streams])))
        direction = np.zeros_like(balls.centres)
        for _ in range(self.steps):
            added = _drawn(average, streams, (self.copies_for(average), *shape))
            gradients = average.gradients(_shaped(points, shape), targets, added).flatten(1).double().numpy()
            gradients = np.nan_to_num(gradients)  # where a network has none, another step may find one
            sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
            direction -= gradients / np.maximum(sizes, np.finfo(np.float64).tiny)
            points = balls.points(balls.farthest(direction))
        return points


def _drawn(average: NoisyAverage, streams: Sequence[np.random.Generator], shape: Sequence[int]) -> Tensor:
    """Noise for each stream's own point, shape (points, copies, ...)."""
    noise, step = average.noise, average.step
    if step == 0:
        return torch.from_numpy(np.float32(noise.scale) * np.stack([noise.standard(each, shape) for each in streams]))
    words = [each.integers(2**64, size=tuple(shape), dtype=np.uint64) for each in streams]
    return torch.from_numpy(np.float32(step) * rounded_table(noise, step).draw(np.stack(words)).astype(np.float32))


def _shaped(points: NDArray[np.float32], shape: torch.Size) -> Tensor:
    return torch.from_numpy(points).reshape(len(points), *shape)
