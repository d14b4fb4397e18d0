"""From what a user types after ``--data`` to labelled data."""

import os
from pathlib import Path

from holdfast.errors import DatasetError
from holdfast.zoo.datasets.arrow_folder import holds_arrow, load_arrow
from holdfast.zoo.datasets.cifar10 import holds_cifar10, load_cifar10
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.datasets.idx import holds_idx, load_idx
from holdfast.zoo.datasets.image_folder import ImageFolder, load_image_folder, splits_of
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.datasets.npz import load_npz
from holdfast.zoo.datasets.table import load_table, table_named

EMBEDDED = "fashion-mnist"
IMAGENET = "imagenet"
IMAGENET_DIR = "IMAGENET_DIR"


def open_dataset(name: str, *, split: str = "test", size: int | str | None = None) -> LabelledData:
    """A dataset by name, or a path: an archive, a table, or a folder in one of the formats of docs/runs.md.

    ``size`` is what image files are resized to, 224 unless given, or ``"32-grey"``, or ``"original"`` for files that are alike.
    """
    found = _open(name, split, size)
    if size is not None and not isinstance(found, ImageFolder):
        raise DatasetError(
            f"a size ({size}) is for folders of image files; {name} holds images of one size, and keeps it"
        )
    return found


def _open(name: str, split: str, size: int | str | None) -> LabelledData:
    if name == EMBEDDED:
        if split != "test":
            raise DatasetError(
                f"the embedded {EMBEDDED} is 500 images of the test split, got split {split!r}; "
                f"for the whole set give the folder that holds its four IDX files"
            )
        return load_fashion_mnist()
    if (table := table_named(name)) is not None and not Path(name).is_dir():
        return load_table(*table)
    path = _imagenet() if name == IMAGENET and not Path(name).exists() else Path(name)
    if path.suffix == ".npz" and path.is_file():
        return load_npz(path, split)
    if path.is_dir():
        if holds_idx(path):
            return load_idx(path, split)
        if holds_arrow(path):
            return load_arrow(path, split)
        if holds_cifar10(path):
            return load_cifar10(path, split)
        images = load_image_folder(path, split, size)
        if images is not None:
            return images
        if others := splits_of(path):
            raise DatasetError(f"{path} has no images for the split {split!r}; it has: {', '.join(others)}")
    if path.exists():
        raise DatasetError(
            f"{path} is neither an .npz archive nor a table (.csv, .parquet), nor a folder of IDX files (MNIST's format), of CIFAR-10, of "
            f"Hugging Face's datasets (save_to_disk), or with a folder of images for each class"
        )
    raise DatasetError(
        f"unknown dataset {name!r}: expected {EMBEDDED!r} (embedded), an .npz archive with images and labels, a .csv or .parquet table, "
        f"a folder of IDX files or of CIFAR-10, or a folder SPLIT/CLASS/*.jpg; nothing exists at that path"
    )


def _imagenet() -> Path:
    folder = os.environ.get(IMAGENET_DIR)
    if not folder or not Path(folder).is_dir():
        said = "is not set" if not folder else f"is {folder!r}, where no folder is"
        raise DatasetError(
            f"{IMAGENET!r} is read from the folder that {IMAGENET_DIR} names, and {IMAGENET_DIR} {said}; "
            f"set it to the folder that holds val/CLASS/*.JPEG, or give that folder as the dataset"
        )
    return Path(folder)
