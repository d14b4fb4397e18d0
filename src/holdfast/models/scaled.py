"""One noise scale for each feature: the model of inputs that were divided by their scales."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.models.as_model import as_model
from holdfast.models.fingerprint import content_hash
from holdfast.models.model import Model
from holdfast.validation import check_numbers


@runtime_checkable
class Scaler(Protocol):
    """What a fitted ``StandardScaler`` of scikit-learn looks like."""

    mean_: Any
    scale_: Any


class Scaled(Model):
    """The same classifier in units of each feature's scale: it sees ``z * scale + center`` where it is given z.

    Noise of ``sigma`` in z is noise of ``sigma * scale`` in the features, one standard deviation for each. Give the
    inputs in the same units, ``(x - center) / scale`` or ``scaler.transform(x)``: radii are in them, and the certificate says so.

    Guarantee:
        That of any certificate, for this classifier of z: changing units is no part of what is smoothed.

    Parameters:
        given: a torch module, a function of batches, an estimator, or a :class:`Model`.
        scale: a positive number for each feature, in the input's shape; or a fitted ``StandardScaler``.
        center: subtracted from the features before they are divided; by default zero, or the mean of a ``StandardScaler``.
        outputs: what the model returns, ``"logits"`` or ``"probabilities"``; it is checked.
    """

    units = "units of each feature's scale"

    def __init__(
        self,
        given: nn.Module | Model | Callable[[Any], Any] | object,
        scale: ArrayLike | Scaler,
        *,
        center: ArrayLike | None = None,
        outputs: str = "logits",
        device: str | torch.device | None = None,
    ) -> None:
        if isinstance(scale, Scaler):
            if center is not None:
                raise InvalidArgument(
                    "a StandardScaler brings its own center, its mean; leave center out, or give its scale_ as scale"
                )
            scale, center = _of_scaler(scale)
        elif center is None:
            center = 0.0
        scales, centers = check_numbers("scale", scale), check_numbers("center", center)
        if not ((scales > 0) & np.isfinite(scales)).all() or not np.isfinite(centers).all():
            raise InvalidArgument(
                f"scale must be a positive number for each feature, and center a finite one, got {scale!r} and {center!r}; leave "
                f"constant features out, or give them the scale 1"
            )
        self._model = as_model(given, outputs=outputs, device=device, precision=None, compiled=False)
        self._scale, self._center = (torch.from_numpy(np.array(each, dtype=np.float32)) for each in (scales, centers))
        self.name, self.device = f"{self._model.name}, scaled", self._model.device
        self.precision, self.stateless = self._model.precision, self._model.stateless
        self.rows = self._model.rows

    def _features(self, batch: Tensor) -> Tensor:
        scale, center = self._scale.to(batch.device), self._center.to(batch.device)
        for name, given in (("scale", scale), ("center", center)):
            if given.ndim and given.shape != batch.shape[1:]:
                raise InvalidInput(
                    f"{name} has shape {tuple(given.shape)}, and the input {tuple(batch.shape[1:])}; they must agree"
                )
        return torch.addcmul(center, batch, scale)

    def probabilities(self, batch: Tensor) -> Tensor:
        """The model's, of the features."""
        return self._model.probabilities(self._features(batch))

    def anew(self, batch: Tensor) -> Tensor:
        """The model's own, of the features."""
        return self._model.anew(self._features(batch))

    def validate(self, rows: Tensor) -> Tensor:
        """The model's own checks, of the features."""
        return self._model.validate(self._features(rows))

    def gradient(self, batch: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor | None:
        """By the chain rule."""
        found = self._model.gradient(self._features(batch), value)
        return None if found is None else found * self._scale.to(found.device)

    def replicate(self, device: torch.device) -> Model | None:
        """With a replica of the model."""
        inner = self._model.replicate(device)
        if inner is None or inner is self._model:
            return inner and self
        made = copy.copy(self)
        made._model = inner
        return made

    def expect(self, copies: int) -> None:
        """The model's."""
        self._model.expect(copies)

    def fallback(self, reason: str) -> bool:
        """The model's."""
        return self._model.fallback(reason)

    def fingerprint(self) -> str | None:
        """Of the model and its units."""
        known = self._model.fingerprint()
        return None if known is None else content_hash((known, self._scale, self._center))

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """The model's."""
        return self._model.devices

    @property
    def rounded(self) -> bool:
        """Whether the model is."""
        return self._model.rounded

    @property
    def weights_version(self) -> object:
        """The model's."""
        return self._model.weights_version

    def refresh(self) -> None:
        """The model's."""
        self._model.refresh()

    def session(self) -> AbstractContextManager[object]:
        """The model's."""
        return self._model.session()


def _of_scaler(scaler: Scaler) -> tuple[ArrayLike, ArrayLike]:
    """Of ``with_std=False`` or ``with_mean=False``, a scale of one or a centre of zero."""
    return (1.0 if scaler.scale_ is None else scaler.scale_), (0.0 if scaler.mean_ is None else scaler.mean_)
