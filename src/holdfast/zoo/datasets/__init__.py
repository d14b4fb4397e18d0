"""Datasets: what can be read and certified."""

from pathlib import Path

from holdfast.validation import check_path
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.datasets.open import open_dataset

__all__ = ["load"]


def load(name: str | Path, *, split: str = "test", size: int | str | None = None) -> LabelledData:
    """Inputs with labels: "fashion-mnist" is embedded; others are paths, as ``holdfast certify --data`` takes them.

    ``size`` is what image files are resized to (224 unless given; "original" keeps it).
    ``x, y = data[0]`` is an input and its label; ``data.every(20, 500)`` is every 20th, 500 at most.
    """
    return open_dataset(str(check_path("name", name)), split=split, size=size)
