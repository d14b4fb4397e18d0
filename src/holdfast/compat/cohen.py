"""The shape of Cohen et al.'s code (locuslab/smoothing): ``from holdfast.compat.cohen import Smooth``."""

from collections.abc import Callable
from typing import Any

from torch import nn

from holdfast.compat.votes import ABSTAIN, VotingClassifier
from holdfast.errors import InvalidInput
from holdfast.inputs import Input
from holdfast.models import Model


class Smooth:
    """The class that most noisy copies of an input vote for, and Cohen et al.'s certificate of it.

    Results are theirs in law: the same algorithm and the same bounds, all of alpha spent on the label. Noise is this library's:
    secret unless ``seed`` is given, and exact on the grid of the inputs. A radius is rounded down, and reduced by the input's
    distance to that grid, which is zero for images of bytes.

    Parameters:
        base_classifier: returns ``outputs``; it runs where its parameters are, and inputs may be on any device.
        num_classes: how many it has; compared.
        sigma: of the noise, in the units of the inputs.
        outputs, inputs: as for :class:`holdfast.SmoothedClassifier`; pass ``inputs="any"`` for images that are not in [0, 1].
    """

    ABSTAIN = ABSTAIN

    def __init__(
        self,
        base_classifier: nn.Module | Model | Callable[[Any], Any],
        num_classes: int,
        sigma: float,
        *,
        outputs: str = "logits",
        inputs: str = "auto",
    ) -> None:
        self._classifier = VotingClassifier(base_classifier, num_classes, sigma, outputs=outputs, inputs=inputs)
        self._base_classifier = base_classifier

    @property
    def base_classifier(self) -> object:
        """What was given; weights that are changed in place count at the next call."""
        return self._base_classifier

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return self._classifier.classes

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self._classifier.sigma

    def certify(
        self, x: Input, n0: int, n: int, alpha: float, batch_size: int, *, seed: int | None = None
    ) -> tuple[int, float]:
        """The class at x and its certified l2 radius; ``(ABSTAIN, 0.0)`` if it cannot be told.

        Guarantee:
            With probability at least ``1 - alpha``: an abstention, or the class has most votes at every point strictly within
            the radius.
        """
        return next(self._classifier.certify([_one(x)], n0=n0, n=n, alpha=alpha, batch=batch_size, seed=seed))

    def predict(self, x: Input, n: int, alpha: float, batch_size: int, *, seed: int | None = None) -> int:
        """The class at x, or ``ABSTAIN``.

        Guarantee:
            With probability at least ``1 - alpha``: an abstention, or the class with most votes under the noise itself
            (:class:`holdfast.compat.votes.VoteTest`).
        """
        test = next(self._classifier.predict([_one(x)], n=n, alpha=alpha, batch=batch_size, seed=seed))
        return test.predicted if test.certified(alpha) else ABSTAIN


def _one(x: Input) -> Input:
    """An image that comes as a batch of one, as from a DataLoader, is that image."""
    if getattr(x, "ndim", 0) != 4:
        return x
    if len(x) != 1:
        raise InvalidInput(f"x must be one image, got a batch of {len(x)}; call once for each image")
    return x[0]
