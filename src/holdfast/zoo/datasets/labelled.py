"""Labelled inputs: what datasets are read into, whole or one at a time."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import DatasetError
from holdfast.progress import OnDone, ignore
from holdfast.validation import check_count, check_position


class LabelledData(ABC):
    """Inputs with labels, and the index each had in its dataset; an input is read when it is asked for.

    Attributes:
        name: for titles and run.json.
        labels: the class numbers, from 0.
        indices: positions in the whole dataset; they key the noise.
        label_names: the classes in words, or nothing.
    """

    name: str
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    label_names: tuple[str, ...]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of every input: (channels, height, width) for images."""

    @abstractmethod
    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""

    @abstractmethod
    def at(self, kept: slice | NDArray[np.int64]) -> Self:
        """The inputs at these positions."""

    @abstractmethod
    def check(self, on_images: OnDone = ignore) -> None:
        """Refuse now whatever could not be read later."""

    def changes(self) -> str:
        """What reading the inputs changes about them, in words; nothing where they are as they are stored."""
        return ""

    @abstractmethod
    def digest(self) -> str:
        """A hash of the inputs as they are stored: equal for equal inputs, different for others."""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}: {len(self):,} inputs of shape {tuple(self.shape)})"

    def __getitem__(self, position: int) -> tuple[NDArray[np.float32], int]:
        """An input and its label, as datasets of torch give them."""
        at = check_position(self.name, position, len(self))
        return self.image(at), int(self.labels[at])

    def __iter__(self) -> Iterator[tuple[NDArray[np.float32], int]]:
        return (self[position] for position in range(len(self)))

    def every(self, skip: int, at_most: int | None) -> Self:
        """Every ``skip``-th input from the first, ``at_most`` of them."""
        check_count("skip", skip)
        return self.at(slice(None, None if at_most is None else skip * check_count("at_most", at_most), skip))

    def batch(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Several images in [0, 1]."""
        return np.stack([self.image(int(position)) for position in positions])


class Images:
    """The images of a dataset, all or those at some positions, as a sequence that reads them one at a time."""

    def __init__(self, data: LabelledData, positions: NDArray[np.int64] | None = None) -> None:
        self._data = data
        self._positions = np.arange(len(data)) if positions is None else positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, position: int) -> NDArray[np.float32]:
        return self._data.image(int(self._positions[position]))


@dataclass(frozen=True, eq=False, repr=False)
class LabelledInputs(LabelledData):
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

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every input."""
        return self.images.shape[1:]

    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""
        image: NDArray[np.float32] = self.images[position].astype(np.float32)
        return image / np.float32(255.0) if self.images.dtype == np.uint8 else image

    def at(self, kept: slice | NDArray[np.int64]) -> Self:
        """The inputs at these positions."""
        return replace(self, images=self.images[kept], labels=self.labels[kept], indices=self.indices[kept])

    def check(self, on_images: OnDone = ignore) -> None:
        """Everything was read already."""
        on_images(len(self))

    def digest(self) -> str:
        """A hash of all images."""
        found = hashlib.sha256(f"{self.images.dtype} {self.images.shape} ".encode())
        for image in self.images:
            found.update(np.ascontiguousarray(image).data)
        return found.hexdigest()
