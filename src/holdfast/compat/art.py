"""The shape of IBM's ART: ``from holdfast.compat.art import PyTorchRandomizedSmoothing``; ART itself is not needed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from holdfast.compat.votes import VotingClassifier
from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.validation import check_alpha, check_count

_DEVICES = {"gpu": "auto", "cpu": "cpu"}


class PyTorchRandomizedSmoothing:
    """Randomized smoothing of a torch network, on NumPy arrays of inputs; radii are in l2.

    Parameters:
        model: returns ``outputs``, and is put on the device.
        loss, optimizer: for :meth:`fit` only; ``loss(outputs, labels)`` gets class numbers.
        input_shape, nb_classes: compared with the inputs and the model.
        channels_first: where the channels are, for a ``preprocessing`` with one number per channel.
        clip_values: the range of the inputs; others are refused. Noisy copies are not clipped.
        preprocessing: ``(subtrahend, divisor)``, applied after the noise: sigma is in the units of the inputs.
        preprocessing_defences, postprocessing_defences: must be None; put them into the model, so that they are certified, too.
        device_type: ``"gpu"``, if there is one, or ``"cpu"``.
        sample_size: copies for :meth:`predict`, and those that :meth:`certify` chooses a class by.
        scale: standard deviation of the noise.
        alpha: failure probability of each answer.
        outputs, inputs: as for :class:`holdfast.SmoothedClassifier`; by default inputs with ``clip_values`` outside [0, 1] are
            in any units, and images in [0, 1] otherwise.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] | None,
        input_shape: Sequence[int],
        nb_classes: int,
        optimizer: torch.optim.Optimizer | None = None,
        channels_first: bool = True,
        clip_values: tuple[ArrayLike, ArrayLike] | None = None,
        preprocessing_defences: None = None,
        postprocessing_defences: None = None,
        preprocessing: tuple[ArrayLike, ArrayLike] | None = (0.0, 1.0),
        device_type: str = "gpu",
        sample_size: int = 32,
        scale: float = 0.1,
        alpha: float = 0.001,
        *,
        outputs: str = "logits",
        inputs: str | None = None,
    ) -> None:
        if preprocessing_defences is not None or postprocessing_defences is not None:
            raise InvalidArgument(
                "preprocessing_defences and postprocessing_defences must be None: a certificate would be about the model without "
                "them; put what they do into the model"
            )
        if device_type not in _DEVICES:
            raise InvalidArgument(f'device_type must be "gpu" or "cpu", got {device_type!r}')
        if not isinstance(input_shape, Sequence):
            raise InvalidArgument(f"input_shape must be a tuple such as (1, 28, 28), got {input_shape!r}")
        if clip_values is not None and len(clip_values) != 2:
            raise InvalidArgument(f"clip_values must be (least, largest), got {clip_values!r}")
        self.input_shape = tuple(check_count("a size in input_shape", size) for size in input_shape)
        self.sample_size = check_count("sample_size", sample_size)
        self.alpha = check_alpha(alpha)
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.clip_values = clip_values
        if inputs is None:
            inputs = "any" if clip_values is not None and _beyond_images(clip_values) else "auto"
        self._net = _preprocessed(model, preprocessing, self.input_shape, channels_first)
        self._classifier = VotingClassifier(
            self._net, nb_classes, scale, outputs=outputs, inputs=inputs, device=_DEVICES[device_type]
        )

    @property
    def nb_classes(self) -> int:
        """How many classes there are."""
        return self._classifier.classes

    @property
    def scale(self) -> float:
        """Standard deviation of the noise."""
        return self._classifier.sigma

    def certify(
        self, x: NDArray[Any], n: int, batch_size: int = 32, *, seed: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Classes and certified radii; -1 and 0.0 where it abstains.

        Guarantee:
            For each input, with probability at least ``1 - alpha``: an abstention, or the class has most votes at every point
            strictly within the radius.
        """
        xs, asked = self._checked(x), {"n0": self.sample_size, "n": n, "alpha": self.alpha}
        found = list(self._classifier.certify(xs, **asked, batch=batch_size, seed=seed))  # type: ignore[arg-type]
        return np.array([each for each, _ in found], dtype=np.int64), np.array([radius for _, radius in found])

    def predict(
        self, x: NDArray[Any], batch_size: int = 128, is_abstain: bool = True, *, seed: int | None = None
    ) -> NDArray[np.float64]:
        """One row for each input, shape (inputs, classes): 1 for the class with most votes of ``sample_size`` copies.

        Guarantee:
            With ``is_abstain``, and for each input with probability at least ``1 - alpha``: a row of zeros, or the class with most
            votes under the noise itself (:class:`holdfast.compat.votes.VoteTest`). Without it, none.
        """
        if not isinstance(is_abstain, bool):
            raise InvalidArgument(f"is_abstain must be True or False, got {is_abstain!r}")
        xs = self._checked(x)
        tests = self._classifier.predict(xs, n=self.sample_size, alpha=self.alpha, batch=batch_size, seed=seed)
        rows = np.zeros((len(xs), self.nb_classes))
        for row, test in zip(rows, tests, strict=True):
            row[test.predicted] = not is_abstain or test.certified(self.alpha)
        return rows

    def fit(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        batch_size: int = 128,
        nb_epochs: int = 10,
        training_mode: bool = True,
    ) -> None:
        """Train the model on noisy copies of the inputs, with the noise before ``preprocessing``, as it is certified.

        ``y`` are class numbers, or one row of zeros and a one for each input. Randomness is torch's (``torch.manual_seed``).
        """
        if self.optimizer is None or self.loss is None:
            raise InvalidArgument("fit needs an optimizer and a loss; give them when the classifier is made")
        check_count("batch_size", batch_size)
        check_count("nb_epochs", nb_epochs)
        xs = torch.from_numpy(np.ascontiguousarray(self._checked(x), dtype=np.float32))
        labels = torch.from_numpy(self._labels(y, len(xs)))
        device = next(self._net.parameters()).device
        self._net.train(training_mode)
        for _ in range(nb_epochs):
            for chosen in torch.split(torch.randperm(len(xs)), batch_size):
                rows = xs[chosen].to(device)
                self.optimizer.zero_grad()
                noisy = rows + self.scale * torch.randn_like(rows)
                self.loss(self._net(noisy), labels[chosen].to(device)).backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
        self._net.eval()

    def _checked(self, x: NDArray[Any]) -> NDArray[Any]:
        given = np.asarray(x)
        if given.shape[1:] != self.input_shape or given.ndim == 0 or len(given) == 0:
            raise InvalidInput(
                f"x must be an array of shape (inputs, {', '.join(map(str, self.input_shape))}), got {given.shape}"
            )
        if given.dtype.kind in "iub":
            given = given.astype(np.float32)
        if self.clip_values is not None:
            low, high = (np.asarray(each, dtype=np.float64) for each in self.clip_values)
            if (given < low).any() or (given > high).any():
                raise InvalidInput(
                    f"x must lie within clip_values = {self.clip_values!r}, got values from {given.min():.4g} to {given.max():.4g}"
                )
        return given

    def _labels(self, y: NDArray[Any], inputs: int) -> NDArray[np.int64]:
        given = np.asarray(y)
        if given.shape == (inputs, self.nb_classes):
            given = given.argmax(1)
        if given.shape != (inputs,) or not np.isin(given, np.arange(self.nb_classes)).all():
            raise InvalidArgument(
                f"y must be {inputs} class numbers below {self.nb_classes}, or rows of shape ({inputs}, {self.nb_classes}), "
                f"got shape {np.shape(y)}"
            )
        return given.astype(np.int64)


class _Preprocessing(nn.Module):
    """``(x - subtrahend) / divisor``, each broadcast to the shape of an input."""

    subtrahend: Tensor
    divisor: Tensor

    def __init__(self, subtrahend: NDArray[np.float32], divisor: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("subtrahend", torch.from_numpy(subtrahend))
        self.register_buffer("divisor", torch.from_numpy(divisor))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.subtrahend) / self.divisor


def _preprocessed(
    model: nn.Module, preprocessing: tuple[ArrayLike, ArrayLike] | None, shape: tuple[int, ...], channels_first: bool
) -> nn.Module:
    """The model with its preprocessing as first layer, where noise comes before it."""
    if preprocessing is None:
        return model
    if not isinstance(preprocessing, tuple | list) or len(preprocessing) != 2:
        raise InvalidArgument(
            f"preprocessing must be (subtrahend, divisor), got {preprocessing!r}; put anything else into the model"
        )
    subtrahend, divisor = (_broadcast(each, shape, channels_first) for each in preprocessing)
    if not (np.isfinite(subtrahend).all() and np.isfinite(divisor).all() and (divisor > 0).all()):
        raise InvalidArgument(f"preprocessing must be finite, with a positive divisor, got {preprocessing!r}")
    if (subtrahend == 0).all() and (divisor == 1).all():
        return model
    return nn.Sequential(_Preprocessing(subtrahend, divisor), model)


def _broadcast(given: ArrayLike, shape: tuple[int, ...], channels_first: bool) -> NDArray[np.float32]:
    """A number, one for each channel, or one for each place."""
    numbers = np.asarray(given, dtype=np.float32)
    if numbers.ndim == 1 and len(shape) == 3 and channels_first:
        numbers = numbers[:, None, None]
    try:
        return np.array(np.broadcast_to(numbers, shape))
    except ValueError as error:
        raise InvalidArgument(
            f"preprocessing must be numbers, one for each channel, or of shape {shape}, got shape {np.shape(given)}"
        ) from error


def _beyond_images(clip_values: tuple[ArrayLike, ArrayLike]) -> bool:
    low, high = (np.asarray(each, dtype=np.float64) for each in clip_values)
    return bool((low < 0).any() or (high > 1).any())
