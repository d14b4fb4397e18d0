"""Checks of the inputs themselves, before any noisy copy is made."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.noise import Noise
from holdfast.validation import check_count

Input = Tensor | NDArray[np.floating]
_FAR = 0.5
_LARGEST_SHIFT = 1e-3
_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)


class InputSource(Protocol):
    """Anything with a length whose items are inputs, or (input, label) pairs: a tensor, an array, a list, a dataset."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


class CheckedInputs:
    """Inputs of one shape, each checked when it is read; those of an array are all checked at once."""

    def __init__(self, xs: InputSource, kind: str, noise: Noise) -> None:
        if not hasattr(xs, "__len__") or not hasattr(xs, "__getitem__") or isinstance(xs, Mapping):
            raise _not_indexable(xs)
        if isinstance(xs, Tensor | np.ndarray) and xs.ndim < 2:
            raise InvalidInput(
                f"expected a batch with a first dimension of inputs, got shape {tuple(xs.shape)}; for one input use certify(x)"
            )
        if len(xs) == 0:
            raise InvalidInput("there is nothing to certify: no inputs were given")
        self._xs, self._kind, self._noise = xs, kind, noise
        self._shape: torch.Size | None = None
        self._shape = self[0].shape
        if isinstance(xs, Tensor | np.ndarray):
            for position in range(1, len(xs)):
                self[position]

    def __len__(self) -> int:
        return len(self._xs)

    def __getitem__(self, position: int) -> Tensor:
        try:
            item = self._xs[position]
        except TypeError as error:
            raise _not_indexable(self._xs) from error
        x = item[0] if isinstance(item, tuple) else item
        checked = as_input(x, self._kind, self._noise, what=f"input {position}")
        if self._shape is not None and checked.shape != self._shape:
            raise InvalidInput(
                f"input {position} has shape {tuple(checked.shape)}, but input 0 has {tuple(self._shape)}; they must agree"
            )
        return checked


def check_indices(indices: Sequence[int] | None, inputs: int) -> Sequence[int]:
    """What keys the noise of each input: by default its position."""
    if indices is None:
        return range(inputs)
    keys = [check_count("index", each, at_least=0) for each in indices]
    if len(keys) != inputs or len(set(keys)) != len(keys):
        raise InvalidArgument(f"indices must be {inputs} different numbers, one for each input, got {len(keys)}")
    return keys


def _not_indexable(xs: object) -> InvalidInput:
    return InvalidInput(
        f"inputs must be a tensor, an array, a list or a dataset that can be indexed, got {type(xs).__name__}; "
        f"give a DataLoader's dataset instead"
    )


def check_kind(kind: str) -> str:
    """Refuse an unknown kind of input."""
    if kind not in ("auto", "images", "any"):
        raise InvalidArgument(f'inputs must be "auto", "images" or "any", got {kind!r}')
    return kind


def range_of(kind: str, shape: Sequence[int]) -> tuple[float, float] | None:
    """Between which values an input of this kind and shape must lie; None if that is not known: it is no image."""
    image = kind == "images" or (kind == "auto" and len(shape) == 3 and shape[0] in (1, 3))
    return (-_FAR, 1 + _FAR) if image else None


def as_input(x: Input, kind: str, noise: Noise, *, what: str = "the input", leeway: float | None = None) -> Tensor:
    """One input as a float32 tensor on the CPU, checked; the certificate's ball is centred there.

    With a ``leeway``, an image that is at most so far (l2) outside the range that images may have is moved to the nearest
    one inside, not refused. That brings it no further away from any image inside: the range is convex.
    """
    given = _array(x, what)
    if given.size == 0:
        raise InvalidInput(f"{what} is empty: it has shape {given.shape}")
    if not (np.isfinite(given.min()) and np.isfinite(given.max())):
        bad = int(np.count_nonzero(~np.isfinite(given)))
        raise InvalidInput(f"{what} must be finite, got NaN or infinity in {bad} of {given.size} places")
    within = range_of(kind, given.shape)
    if within is not None and leeway is not None:
        inside = np.asarray(given.clip(*within))
        given = inside if _distance(given, inside) <= leeway + _LARGEST_SHIFT * noise.scale else given
    with np.errstate(over="ignore"):
        rounded = given.astype(np.float32, order="C")
    shift = _distance(given, rounded) if given.dtype == np.float64 else 0.0
    if not shift <= _LARGEST_SHIFT * noise.scale:
        raise InvalidInput(
            f"{what} moves by {shift:.3g} when rounded to float32, which is not small beside {noise.title}; "
            f"centre and scale its features first, so that the noise is not lost in their size"
        )
    low, high = float(rounded.min()), float(rounded.max())
    if within is not None and (low < within[0] or high > within[1]):
        raise InvalidInput(
            f"{what} looks like an image of shape {given.shape}, but its values go from {low:.3g} to {high:.3g} where [0, 1] is "
            f"expected: sigma and radius are measured in those units. Divide bytes by 255; if the model wants normalised "
            f"inputs, put the normalisation inside it: nn.Sequential(holdfast.Normalize(mean, std), net). "
            f'If these really are the units you mean, pass inputs="any"'
        )
    return torch.from_numpy(rounded)


def _array(x: object, what: str) -> NDArray[np.floating]:
    """The input's own numbers on the host: by NumPy, since waking torch's threads was seen to take 16 ms an operation."""
    if not isinstance(x, Tensor | np.ndarray) or isinstance(x, np.ma.MaskedArray):
        raise InvalidInput(f"{what} must be a torch tensor or a NumPy array, got {type(x).__name__}")
    if isinstance(x, np.ndarray):
        x = np.asarray(x, dtype=x.dtype.newbyteorder("="))
    if not (x.is_floating_point() if isinstance(x, Tensor) else x.dtype in (np.float16, np.float32, np.float64)):
        raise InvalidInput(
            f"{what} must be floating point, got {x.dtype}; for an image of bytes use x / 255, so that pixels are in [0, 1]"
        )
    if isinstance(x, np.ndarray):
        return x
    if x.layout is not torch.strided or x.is_nested or x.is_meta:
        raise InvalidInput(f"{what} must be a dense tensor with all of its numbers; use x.to_dense() if it is sparse")
    held = x.detach().cpu().resolve_neg()
    return (held if held.dtype in _NUMPY_HAS else held.float()).numpy()


def _distance(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.square(np.subtract(one, other, dtype=np.float64)).sum()))
