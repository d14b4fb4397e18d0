"""What is attacked: the average of a measure over noisy copies, and which way it falls."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.measures import Measure
from holdfast.models import Model
from holdfast.noise import Noise
from holdfast.sampling.batch_size import default_batch

_ON_A_GPU = 8
"""Times as many copies at once as on a CPU; far fewer than for counts, since gradients keep what every layer says."""


@dataclass(frozen=True, eq=False)
class NoisyAverage:
    """The average of a measure around points, for one class each, seen through a few noisy copies of them.

    Attributes:
        step: of the grid that the noise is on; 0.0 for float32 noise.
        differentiable: whether the model has gradients; if not, it is known by its scores alone.
    """

    model: Model
    noise: Noise
    step: float
    measure: Measure
    differentiable: bool

    @classmethod
    def of(cls, model: Model, noise: Noise, step: float, measure: Measure, x: Tensor) -> "NoisyAverage":
        """Asks the model for a gradient at an input, to see whether it has any; one that is zero everywhere leads nowhere."""
        row, first = x[None].to(model.device), torch.zeros(1, dtype=torch.int64, device=model.device)
        with model.session():
            found = model.gradient(row, lambda answer: measure(answer, first))
        useful = found is not None and bool(torch.isfinite(found).all() and found.any())
        return cls(model, noise, step, measure, useful)

    def gradients(self, points: Tensor, targets: Tensor, added: Tensor) -> Tensor:
        """An estimate of each average's gradient, up to a factor; ``added`` is noise, of shape (points, copies, ...).

        The mean gradient of the copies, if the model has gradients. If not, the covariance of the measure with the noise: for
        Gaussian noise that is the gradient, too (Stein's identity). Noise of either sign cancels what is even in it.
        """
        if self.differentiable:
            return self._of_copies(points, targets, added, self._gradient).mean(1)
        change = self._of_copies(points, targets, added, self._value)
        change = change - self._of_copies(points, targets, -added, self._value)
        return torch.einsum("pc,pc...->p...", change, added)

    def values(self, points: Tensor, targets: Tensor, added: Tensor) -> Tensor:
        """An estimate of each average."""
        return self._of_copies(points, targets, added, self._value).mean(1)

    def _of_copies(
        self, points: Tensor, targets: Tensor, added: Tensor, of: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """What ``of`` says of each copy, shape (points, copies, ...)."""
        count, copies = added.shape[:2]
        few = default_batch(torch.device("cpu"), points.shape[1:], 0.0)
        size = few if self.model.device.type == "cpu" else _ON_A_GPU * few
        rows = (points[:, None] + added).flatten(0, 1)
        classes = targets.repeat_interleave(copies)
        with self.model.session():
            parts = [
                of(some.to(self.model.device), known.to(self.model.device)).cpu()
                for some, known in zip(torch.split(rows, size), torch.split(classes, size), strict=True)
            ]
        found = torch.cat(parts)
        return found.reshape(count, copies, *found.shape[1:])

    def _value(self, rows: Tensor, classes: Tensor) -> Tensor:
        return self.measure(self.model.probabilities(rows), classes)

    def _gradient(self, rows: Tensor, classes: Tensor) -> Tensor:
        found = self.model.gradient(rows, lambda answer: self.measure(answer, classes))
        if found is None:
            raise ModelError(
                f"the model {self.model.name} gave a gradient at first and now gives none; let it give one always or never"
            )
        return found
