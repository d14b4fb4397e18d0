"""Checks of the inputs themselves, before any noisy copy is made."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import InvalidArgument, InvalidInput

Kind = Literal["auto", "images", "any"]
_FAR = 0.5
_LARGEST_SHIFT = 1e-3
_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of input."""
    if kind not in ("auto", "images", "any"):
        raise InvalidArgument(f'inputs must be "auto", "images" or "any", got {kind!r}')


def range_of(kind: str, shape: Sequence[int]) -> tuple[float, float] | None:
    """Between which values an input of this kind and shape must lie; None if that is not known: it is no image."""
    image = kind == "images" or (kind == "auto" and len(shape) == 3 and shape[0] in (1, 3))
    return (-_FAR, 1 + _FAR) if image else None


def as_input(
    x: Tensor | NDArray[np.generic], kind: str, sigma: float, *, what: str = "the input", leeway: float | None = None
) -> Tensor:
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
        given = inside if _distance(given, inside) <= leeway + _LARGEST_SHIFT * sigma else given
    with np.errstate(over="ignore"):
        rounded = given.astype(np.float32, order="C")
    shift = _distance(given, rounded) if given.dtype == np.float64 else 0.0
    if not shift <= _LARGEST_SHIFT * sigma:
        raise InvalidInput(
            f"{what} moves by {shift:.3g} when rounded to float32, which is not small beside sigma = {sigma:g}; "
            f"centre and scale its features first, so that sigma is not lost in their size"
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
