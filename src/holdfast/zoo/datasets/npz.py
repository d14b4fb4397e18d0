"""NumPy archives with images and labels."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.budgets import ROWS, check_archive
from holdfast.errors import DatasetError, reading
from holdfast.zoo.datasets.labelled import LabelledInputs


def load_npz(path: Path, split: str) -> LabelledInputs:
    """Read ``{split}_images`` and ``{split}_labels`` (or plain ``images`` and ``labels``).

    Images are (count, height, width), (count, height, width, 1 or 3) or (count, 1 or 3, height, width): uint8, or float
    in [0, 1].
    """
    what, remedy = "is not a readable .npz archive of plain (unpickled) arrays", "write it with numpy.savez"
    with reading(path, DatasetError, what, remedy=remedy):
        check_archive(path, DatasetError)
        with np.load(path, allow_pickle=False) as arrays:
            keys = set(arrays.files)
            prefix = f"{split}_" if f"{split}_images" in keys else ""
            if not {f"{prefix}images", f"{prefix}labels"} <= keys:
                raise DatasetError(
                    f"{path} must hold '{split}_images' and '{split}_labels' (or 'images' and 'labels'), got {sorted(keys)}"
                )
            images, labels = arrays[f"{prefix}images"], arrays[f"{prefix}labels"]
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise DatasetError(
                f"{path}: labels must be whole numbers, one per image, got {labels.dtype} of shape {labels.shape}"
            )
        if images.ndim == 0:
            raise DatasetError(f"{path}: images must be an array with one image per row, got a single number")
        ROWS.check(path, len(images), DatasetError)
    return LabelledInputs(path.stem, _channels_first(path, images), labels.astype(np.int64), np.arange(len(images)))


def _channels_first(path: Path, images: NDArray[np.generic]) -> NDArray[np.uint8] | NDArray[np.float32]:
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[-1] in (1, 3) and images.shape[1] not in (1, 3):
        images = np.moveaxis(images, -1, 1)
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images, dtype=np.uint8)
    if np.issubdtype(images.dtype, np.floating):
        return np.ascontiguousarray(images, dtype=np.float32)
    raise DatasetError(f"{path}: images must be uint8, or float in [0, 1], got {images.dtype}")
