"""Inputs of one's own as a dataset: arrays, tensors, lists, and datasets of (input, label) pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.zoo.datasets.labelled import LabelledData, LabelledInputs

_HALF_KNOWN = (torch.bfloat16,)
"""Kinds of numbers that NumPy does not have."""


def as_labelled(data: Any) -> LabelledData:
    """A dataset; inputs without labels become one in their order."""
    if isinstance(data, LabelledData):
        return data
    inputs, labels = _inputs_and_labels(data)
    known = np.zeros(len(inputs), dtype=np.int64) if labels is None else labels
    return LabelledInputs("inputs", inputs, known, np.arange(len(inputs)))


def labelled(inputs: Any, labels: Any = None, *, name: str = "inputs", label_names: Sequence[str] = ()) -> LabelledData:
    """A dataset of inputs with their labels; a dataset of pairs has them already, and is read into memory."""
    if not isinstance(name, str):
        raise InvalidArgument(f"name must be a word for the data, got {name!r}")
    if isinstance(label_names, str) or not all(isinstance(each, str) for each in label_names):
        raise InvalidArgument(f'label_names must be a word for each class, such as ("cat", "dog"), got {label_names!r}')
    given = None if labels is None else _labels(labels)
    if isinstance(inputs, LabelledData):
        _check_agree(given, inputs.labels)
        return inputs
    known, own = _inputs_and_labels(inputs)
    _check_agree(given, own)
    classes = own if given is None else given
    if classes is None:
        raise InvalidArgument(
            "labels are missing: give the class number of each input, or a dataset of (input, label) pairs"
        )
    if len(classes) != len(known):
        raise InvalidArgument(f"expected a label for each input, got {len(known):,} inputs and {len(classes):,} labels")
    if len(classes) and classes.min() < 0:
        raise InvalidArgument(f"labels must be class numbers from 0, got {classes.min()}")
    if label_names and classes.max(initial=0) >= len(label_names):
        raise InvalidArgument(
            f"label_names must have a word for each class: {len(label_names)} for labels up to {classes.max()}"
        )
    return LabelledInputs(name, known, classes, np.arange(len(known)), tuple(label_names))


def _check_agree(given: NDArray[np.int64] | None, own: NDArray[np.int64] | None) -> None:
    if given is not None and own is not None and not np.array_equal(given, own):
        raise InvalidArgument("the labels are not those of the dataset; leave them out, or give the inputs alone")


def _inputs_and_labels(data: Any) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Inputs in memory, and the labels of a dataset of pairs."""
    if isinstance(data, torch.Tensor | np.ndarray):
        inputs = _array(data, "inputs")
        if inputs.ndim == 0:
            raise InvalidArgument(f"inputs must be an array with one input per row, got {data!r}")
        return inputs, None
    if isinstance(data, Mapping | str | bytes) or not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise InvalidArgument(
            f"inputs must be an array with one input per row, or a dataset or list of (input, label) pairs, got "
            f"{type(data).__name__}; holdfast.datasets.load(...) loads data by name, and a DataLoader has its .dataset"
        )
    items = [_item(data, position) for position in range(len(data))]
    if not items:
        raise InvalidArgument("there are no inputs: the dataset is empty")
    parts = {len(item) if isinstance(item, tuple) else 1 for item in items}
    if parts not in ({1}, {2}):
        raise InvalidArgument(
            f"inputs must all be (input, label) pairs, or all be inputs alone, got {' and '.join(map(str, sorted(parts)))} parts"
        )
    xs = [_array(item[0] if isinstance(item, tuple) else item, f"input {k}") for k, item in enumerate(items)]
    for k, x in enumerate(xs):
        if x.shape != xs[0].shape:
            raise InvalidInput(f"input {k} has shape {x.shape}, but input 0 has {xs[0].shape}; they must agree")
    return np.stack(xs), _labels([item[1] for item in items]) if parts == {2} else None


def _item(data: Any, position: int) -> Any:
    try:
        return data[position]
    except Exception as error:  # the dataset is foreign code
        raise InvalidInput(f"input {position} of the {type(data).__name__} cannot be read ({error!r})") from error


def _array(x: Any, what: str) -> NDArray[Any]:
    if isinstance(x, torch.Tensor):
        dense = x.detach().cpu().to_dense().resolve_neg()
        x = (dense.float() if dense.dtype in _HALF_KNOWN else dense).numpy()
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "biuf":
        kind = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
        raise InvalidInput(f"{what} must be an array or a tensor of numbers, got {kind}")
    return x


def _labels(labels: Any) -> NDArray[np.int64]:
    """Class numbers, from whatever holds them."""
    try:
        found = np.asarray(labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgument(
            f"labels must be one class number for each input, got {type(labels).__name__} ({error})"
        ) from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidArgument(
            f"labels must be one class number for each input, got an array of {found.dtype} with shape {found.shape}"
        )
    return found.astype(np.int64)
