"""Checks of the inputs themselves, before any noisy copy is made; and where they lie on the classifier's grid."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.noise import MOST_NUMBERS, Noise, default_step, describe_step
from holdfast.validation import check_count, check_number

Input = Tensor | NDArray[np.floating]
_FAR = 0.5
_LARGEST_SHIFT = 1e-3
_LARGEST_ROUNDING = 0.5
_MOST_LEVELS = 2**23
"""Float32 tells this many levels apart, so that a level is known from its float32 number."""
_SAME_LEVEL = 2.0**-12
_NEAR = 2.0**-20
_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)


class GridInput(NamedTuple):
    """An input where it is sampled, float32 on the CPU.

    Attributes:
        shift: how far that is from the input that was given, in the norm of the noise.
        step: of the grid.
    """

    x: Tensor
    shift: float
    step: float


class InputSource(Protocol):
    """Anything with a length whose items are inputs, or (input, label) pairs: a tensor, an array, a list, a dataset."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


class CheckedInputs:
    """Inputs of one shape, each checked when it is read; those of an array are all checked at once.

    Each is rounded to the grid of the ``step`` that is asked for, or else to what suits it, whatever the others are.
    """

    def __init__(self, xs: InputSource, kind: str, noise: Noise, step: float | None = None) -> None:
        if not hasattr(xs, "__len__") or not hasattr(xs, "__getitem__") or isinstance(xs, Mapping):
            raise _not_indexable(xs)
        if isinstance(xs, Tensor | np.ndarray) and xs.ndim < 2:
            raise InvalidInput(
                f"expected a batch with a first dimension of inputs, got shape {tuple(xs.shape)}; for one input use certify(x)"
            )
        if len(xs) == 0:
            raise InvalidInput("there is nothing to certify: no inputs were given")
        self._xs, self._kind, self._noise, self._step = xs, kind, noise, step
        first = self._checked(0)
        self._shape = first.shape
        self._first = self._on_grid(first, "input 0")
        if isinstance(xs, Tensor | np.ndarray):
            for position in range(1, len(xs)):
                self[position]

    def __len__(self) -> int:
        return len(self._xs)

    def __getitem__(self, position: int) -> GridInput:
        given, what = self._checked(position), f"input {position}"
        if given.shape != self._shape:
            raise InvalidInput(f"{what} has shape {given.shape}, but input 0 has {self._shape}; they must agree")
        return self._on_grid(given, what)

    def _on_grid(self, given: NDArray[np.floating], what: str) -> GridInput:
        step = step_for(given, self._kind, self._noise) if self._step is None else self._step
        return on_grid(given, step, self._noise, what=what)

    def __iter__(self) -> Iterator[GridInput]:
        yield self._first
        yield from (self[position] for position in range(1, len(self)))

    def _checked(self, position: int) -> NDArray[np.floating]:
        try:
            item = self._xs[position]
        except TypeError as error:
            raise _not_indexable(self._xs) from error
        x = item[0] if isinstance(item, tuple) else item
        return check_input(x, self._kind, what=f"input {position}")


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


def check_step(step: float | None) -> float | None:
    """A step that someone asked for; 0.0 stands for the float32 noise of Holdfast 0.1.0."""
    return None if step is None else check_number("step", step, at_least=0)


def step_for(x: NDArray[np.floating], kind: str, noise: Noise) -> float:
    """1/255 for an image of bytes, else a power of two far below the noise's scale."""
    near = range_of(kind, x.shape) is not None and np.abs(x - np.rint(x * 255.0) / 255).max() <= _NEAR
    return default_step(noise, bytes_=bool(near))


def check_input(x: Input, kind: str, *, what: str = "the input", leeway: float | None = None) -> NDArray[np.floating]:
    """One input's own numbers, checked.

    With a ``leeway``, an image that is at most so far (l2) outside the range that images may have is moved to the nearest
    one inside, not refused. That brings it no further away from any image inside: the range is convex.
    """
    given = _array(x, what)
    if given.size == 0:
        raise InvalidInput(f"{what} is empty: it has shape {given.shape}")
    if given.size > MOST_NUMBERS:
        raise InvalidInput(f"{what} must have at most {MOST_NUMBERS:,} numbers, got {given.size:,}; make it smaller")
    if not (np.isfinite(given.min()) and np.isfinite(given.max())):
        bad = int(np.count_nonzero(~np.isfinite(given)))
        raise InvalidInput(f"{what} must be finite, got NaN or infinity in {bad} of {given.size} places")
    within = range_of(kind, given.shape)
    if within is not None and leeway is not None:
        inside = np.asarray(given.clip(*within))
        given = inside if _distance(given, inside) <= leeway * (1 + _LARGEST_SHIFT) else given
    low, high = float(given.min()), float(given.max())
    if within is not None and (low < within[0] or high > within[1]):
        raise InvalidInput(
            f"{what} looks like an image of shape {given.shape}, but its values go from {low:.3g} to {high:.3g} where [0, 1] is "
            f"expected: sigma and radius are measured in those units. Divide bytes by 255; if the model wants normalised "
            f"inputs, put the normalisation inside it: nn.Sequential(holdfast.Normalize(mean, std), net). "
            f'If these really are the units you mean, pass inputs="any"'
        )
    return given


def on_grid(
    given: NDArray[np.floating],
    step: float,
    noise: Noise,
    *,
    what: str = "the input",
    farthest: float = _LARGEST_ROUNDING,
) -> GridInput:
    """The nearest point of the grid, and how far away it is; refused if that is more than ``farthest`` of the noise's scale.

    A level that float32 cannot hold exactly, such as 1/255, is meant by the float32 number nearest to it.
    """
    if step == 0:
        with np.errstate(over="ignore"):
            named = given.astype(np.float32, order="C")
        shift, farthest = _distance(given, named, noise.norm), _LARGEST_SHIFT
    else:
        levels = np.asarray(np.rint(given / np.float64(step)))
        if not np.abs(levels).max() < _MOST_LEVELS:
            raise InvalidInput(
                f"{what} has numbers of the size {np.abs(given).max():.3g}, too many steps of {describe_step(step)}, which suit "
                f"{noise.title}; centre and scale its features first, so that the noise is not lost in their size"
            )
        levels *= step
        named = levels.astype(np.float32, order="C")
        away = np.asarray(given - levels)
        away[(named == given) & (np.abs(away) < _SAME_LEVEL * step)] = 0
        shift = _distance(away, 0.0, noise.norm) * (1 + 1e-9)
    if not shift <= farthest * noise.scale:
        grid = "float32" if step == 0 else f"multiples of {describe_step(step)}"
        finest = default_step(noise, bytes_=False)
        finer = f", or choose a finer grid, such as step={finest!r}" if step > finest else ""
        raise InvalidInput(
            f"{what} moves by {shift:.3g} when rounded to {grid}, which is not small beside {noise.title}; centre and scale "
            f"its features first{finer}"
        )
    return GridInput(torch.from_numpy(named), shift, step)


def grid_input(x: Input, kind: str, noise: Noise, step: float, *, leeway: float | None = None) -> GridInput:
    """One input, checked, where it is sampled.

    With a ``leeway``, as :func:`check_input` has it, the grid may be any distance away: no adversary may choose to be refused.
    """
    given = check_input(x, kind, leeway=leeway)
    return on_grid(given, step, noise, farthest=_LARGEST_ROUNDING if leeway is None else math.inf)


def _array(x: object, what: str) -> NDArray[np.floating]:
    """The input's own numbers on the host: by NumPy, since waking torch's threads was seen to take 16 ms an operation."""
    if not isinstance(x, Tensor | np.ndarray) or isinstance(x, np.ma.MaskedArray):
        raise InvalidInput(f"{what} must be a torch tensor or a NumPy array, got {type(x).__name__}")
    if isinstance(x, np.ndarray):
        x = np.asarray(x, dtype=x.dtype.newbyteorder("="))
    if not (x.is_floating_point() if isinstance(x, Tensor) else x.dtype in (np.float16, np.float32, np.float64)):
        remedy = (
            "for an image of bytes use x / 255, so that pixels are in [0, 1]"
            if x.dtype in (torch.uint8, np.uint8)
            else "no noise can be added to token ids or class numbers: certify the network from its embeddings on, or use "
            "x.astype(np.float32) if these are measurements"
        )
        raise InvalidInput(f"{what} must be floating point, got {x.dtype}; {remedy}")
    if isinstance(x, np.ndarray):
        return x
    if x.layout is not torch.strided or x.is_nested or x.is_meta:
        raise InvalidInput(f"{what} must be a dense tensor with all of its numbers; use x.to_dense() if it is sparse")
    held = x.detach().cpu().resolve_neg()
    return (held if held.dtype in _NUMPY_HAS else held.float()).numpy()


def _distance(one: NDArray[np.floating], other: NDArray[np.floating] | float, norm: str = "l2") -> float:
    with np.errstate(over="ignore"):
        apart = np.abs(np.subtract(one, other, dtype=np.float64))
        return float(apart.sum() if norm == "l1" else np.sqrt(np.square(apart).sum()))
