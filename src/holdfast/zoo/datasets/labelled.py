"""Labelled inputs: what datasets are read into, whole or one at a time."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DatasetError
from holdfast.progress import OnDone, ignore


class LabelledData(Protocol):
    """Inputs with labels, and the index each had in its dataset; an input is read when it is asked for."""

    @property
    def name(self) -> str:
        """For titles and run.json."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class numbers, from 0."""

    @property
    def indices(self) -> NDArray[np.int64]:
        """Positions in the whole dataset; they key the noise."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes in words, or nothing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every input: (channels, height, width) for images."""

    def __len__(self) -> int: ...

    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""

    def batch(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Several images in [0, 1]."""

    def every(self, skip: int, at_most: int | None) -> "LabelledData":
        """Every ``skip``-th input from the first, ``at_most`` of them."""

    def check(self, on_images: OnDone = ignore) -> None:
        """Refuse now whatever could not be read later."""

    def digest(self) -> str:
        """A hash of the inputs as they are stored: equal for equal inputs, different for others."""


class Images:
    """The images of a dataset, all or those at some positions, as a sequence that reads them one at a time."""

    def __init__(self, data: LabelledData, positions: NDArray[np.int64] | None = None) -> None:
        self._data = data
        self._positions = np.arange(len(data)) if positions is None else positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, position: int) -> NDArray[np.float32]:
        return self._data.image(int(self._positions[position]))


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """Images in memory, as they are stored (uint8, or float in [0, 1]).

    ``images`` has shape (count, channels, height, width); ``label_names`` may be empty.
    """

    name: str
    images: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    label_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.images) == 0:
            raise DatasetError(f"{self.name} is empty: it holds no inputs")
        if self.images.ndim < 2:
            raise DatasetError(
                f"{self.name}: inputs must have a first dimension that counts them, got {self.images.shape}"
            )
        if not len(self.images) == len(self.labels) == len(self.indices):
            raise DatasetError(
                f"{self.name}: {len(self.images)} images but {len(self.labels)} labels; they must match one to one"
            )
        if self.labels.min() < 0:
            raise DatasetError(f"{self.name}: labels must be class numbers from 0, got {self.labels.min()}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every input."""
        return self.images.shape[1:]

    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""
        return self._unit(self.images[position])

    def batch(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Several images in [0, 1]."""
        return self._unit(self.images[positions])

    def every(self, skip: int, at_most: int | None) -> "LabelledInputs":
        """Every ``skip``-th input from the first, ``at_most`` of them."""
        kept = slice(None, None, skip)
        limit = slice(None, at_most)
        return LabelledInputs(
            self.name,
            self.images[kept][limit],
            self.labels[kept][limit],
            self.indices[kept][limit],
            self.label_names,
        )

    def check(self, on_images: OnDone = ignore) -> None:
        """Everything was read already."""
        on_images(len(self))

    def digest(self) -> str:
        """A hash of all images."""
        found = hashlib.sha256(f"{self.images.dtype} {self.images.shape} ".encode())
        for image in self.images:
            found.update(np.ascontiguousarray(image).data)
        return found.hexdigest()

    def name_of(self, label: int) -> str:
        """The class's name, or its number."""
        return self.label_names[label] if 0 <= label < len(self.label_names) else str(label)

    @staticmethod
    def _unit(images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        if images.dtype == np.uint8:
            return (images.astype(np.float32) / np.float32(255.0)).astype(np.float32)
        return images.astype(np.float32)
