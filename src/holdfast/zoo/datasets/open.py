"""From what a user types after ``--data`` to labelled inputs."""

from pathlib import Path

from holdfast.errors import DatasetError
from holdfast.zoo.datasets.cifar10 import holds_cifar10, load_cifar10
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.datasets.idx import holds_idx, load_idx
from holdfast.zoo.datasets.labelled import LabelledInputs
from holdfast.zoo.datasets.npz import load_npz

EMBEDDED = "fashion-mnist"


def open_dataset(name: str, *, split: str = "test") -> LabelledInputs:
    """The embedded dataset by name, or a path to an .npz archive or to a folder of IDX files or of CIFAR-10."""
    path = Path(name)
    if name == EMBEDDED:
        if split != "test":
            raise DatasetError(
                f"the embedded {EMBEDDED} is 500 images of the test split, got split {split!r}; "
                f"for the whole set give the folder that holds its four IDX files"
            )
        return load_fashion_mnist()
    if path.suffix == ".npz" and path.is_file():
        return load_npz(path, split)
    if path.is_dir() and holds_idx(path):
        return load_idx(path, split)
    if path.is_dir() and holds_cifar10(path):
        return load_cifar10(path, split)
    if path.exists():
        raise DatasetError(
            f"{path} is neither an .npz archive nor a folder of IDX files (MNIST's format) or of CIFAR-10"
        )
    raise DatasetError(
        f"unknown dataset {name!r}: expected {EMBEDDED!r} (embedded), an .npz archive with images and labels, "
        f"or a folder of IDX files or of CIFAR-10; nothing exists at that path"
    )
