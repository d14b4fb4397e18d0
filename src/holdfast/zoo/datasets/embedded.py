"""The dataset that ships with Holdfast: every 20th Fashion-MNIST test image, 500 in all."""

from importlib.resources import files

import numpy as np

from holdfast.zoo.datasets.labelled import LabelledInputs

FASHION_LABELS = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def load_fashion_mnist() -> LabelledInputs:
    """Images 0, 20, 40, ... of the Fashion-MNIST test set (Zalando SE, MIT licence; the notice is beside the file)."""
    resource = files("holdfast.zoo").joinpath("data", "fashion_mnist_500.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return LabelledInputs(
            "fashion-mnist",
            arrays["images"],
            arrays["labels"].astype(np.int64),
            arrays["indices"].astype(np.int64),
            FASHION_LABELS,
        )
