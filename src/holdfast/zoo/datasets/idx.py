"""IDX files, the format of MNIST and Fashion-MNIST, gzipped or not."""

import gzip
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.budgets import ROWS, check_expansion
from holdfast.errors import DatasetError, reading
from holdfast.zoo.datasets.embedded import FASHION_LABELS
from holdfast.zoo.datasets.labelled import LabelledInputs

_PREFIX = {"train": "train", "test": "t10k"}


def holds_idx(folder: Path) -> bool:
    """Whether a folder looks like MNIST's."""
    return any(folder.glob("*-images-idx3-ubyte*"))


def load_idx(folder: Path, split: str) -> LabelledInputs:
    """Read ``{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]``."""
    if split not in _PREFIX:
        raise DatasetError(f"{folder}: split must be 'train' or 'test', got {split!r}")
    images = _read(folder, f"{_PREFIX[split]}-images-idx3-ubyte", dimensions=3)
    labels = _read(folder, f"{_PREFIX[split]}-labels-idx1-ubyte", dimensions=1)
    names = FASHION_LABELS if "fashion" in folder.name.lower() else ()
    return LabelledInputs(folder.name, images[:, None], labels.astype(np.int64), np.arange(len(images)), names)


def _read(folder: Path, name: str, *, dimensions: int) -> NDArray[np.uint8]:
    found = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
    if not found:
        raise DatasetError(f"{folder} has no {name}[.gz]; expected the four IDX files of MNIST or Fashion-MNIST")
    path = found[0]
    size = 4 + 4 * dimensions
    with (
        reading(path, DatasetError, "cannot be read", remedy="it may be truncated: copy it again"),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        header = file.read(size)
        if len(header) < size or header[:3] != b"\x00\x00\x08" or header[3] != dimensions:
            raise DatasetError(f"{path} is not an IDX file of unsigned bytes with {dimensions} dimensions")
        shape = tuple(int(length) for length in np.frombuffer(header[4:], dtype=">u4"))
        promised = math.prod(shape)
        ROWS.check(path, shape[0], DatasetError)
        check_expansion(path, promised, DatasetError)
        content = file.read(promised + 1)  # and no further, however much more there is
    if len(content) != promised:
        held = "more bytes" if len(content) > promised else f"{len(content)} bytes"
        raise DatasetError(f"{path} promises shape {shape} but holds {held}; copy it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
