"""Folders of image files, one folder a class: ImageNet's layout. Images are read when they are asked for."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.budgets import PIXELS
from holdfast.errors import DatasetError, reading
from holdfast.progress import OnDone, ignore
from holdfast.zoo.datasets.labelled import LabelledData

SIZE = 224
_SHORTER_SIDE = 256
_LONGEST = 16
"""Times the shorter side, of what is resized."""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Of the suffixes, and no others: Pillow would run a program for some."""
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, eq=False)
class ImageFolder(LabelledData):
    """Files with labels, in the order of their paths; colour images of 224 x 224.

    An image of another size is resized until its shorter side has 256 pixels, and its middle is cut out, as is usual for
    ImageNet; of one that is more than 16 times as long as wide, the middle alone. The ball of a certificate is around the image after that.
    """

    name: str
    paths: tuple[Path, ...]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    label_names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every image."""
        return (3, SIZE, SIZE)

    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""
        bytes_ = np.moveaxis(np.asarray(_read(self.paths[position])), -1, 0)
        return np.ascontiguousarray(bytes_, dtype=np.float32) / np.float32(255.0)

    def at(self, kept: slice | NDArray[np.int64]) -> Self:
        """The images at these positions."""
        paths = tuple(self.paths[position] for position in np.arange(len(self))[kept])
        return replace(self, paths=paths, labels=self.labels[kept], indices=self.indices[kept])

    def check(self, on_images: OnDone = ignore) -> None:
        """Read every image once: that takes milliseconds each, and certifying one takes seconds."""
        for path in self.paths:
            _read(path)
            on_images(1)

    def digest(self) -> str:
        """A hash of all files."""
        found = hashlib.sha256(f"{self.shape} ".encode())
        for path in self.paths:
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        return found.hexdigest()


def load_image_folder(folder: Path, split: str) -> ImageFolder | None:
    """Read the names in ``folder/split/CLASS/*.jpg``, or in ``folder/CLASS/*.jpg``; None if there are none.

    Classes are numbered in the order of their folders' names; where every name is a number, that is the class.
    """
    found = _classes(folder, split)
    if found is None:
        return None
    names = sorted(path.name for path in found.iterdir() if _is_class(path))
    used = [name for name in names if any(_images(found / name))]
    numeric = [name for name in used if name.isascii() and name.isdigit()]
    if numeric and len(numeric) < len(used):
        other = next(name for name in used if name not in numeric)
        raise DatasetError(
            f"{found} has class folders named by numbers, such as {numeric[0]!r}, and others, such as {other!r}: "
            f"which class is which cannot be told; name all of them by numbers, or none"
        )
    # Named classes are counted with those that are empty here; a number needs no counting.
    numbers = {name: int(name) for name in numeric} or {name: number for number, name in enumerate(names)}
    pairs = [(path, number) for name, number in numbers.items() for path in sorted(_images(found / name))]
    return ImageFolder(
        _title(folder),
        tuple(path for path, _ in pairs),
        np.array([number for _, number in pairs], dtype=np.int64),
        np.arange(len(pairs)),
        () if numeric else tuple(names),
    )


def splits_of(folder: Path) -> tuple[str, ...]:
    """The parts of a folder that have folders of images in them."""
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and _has_classes(path)))


def _title(folder: Path) -> str:
    """The dataset's name, also where the folder of one part of it was given."""
    place = folder.resolve()
    return place.parent.name if place.name in ("test", "train", "val") else place.name


def _classes(folder: Path, split: str) -> Path | None:
    """The folder whose folders are the classes."""
    # ImageNet's test labels are secret: its validation images are what everyone tests on.
    parts = [split, "val"] if split == "test" else [split]
    found = next((folder / part for part in parts if _has_classes(folder / part)), None)
    if found is None and not any(_has_classes(folder / part) for part in ("test", "train", "val")):
        found = folder if _has_classes(folder) else None
    return found


def _has_classes(folder: Path) -> bool:
    return folder.is_dir() and any(any(_images(path)) for path in folder.iterdir() if _is_class(path))


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _images(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and not path.name.startswith("."))


def _read(path: Path) -> Image.Image:
    """The image as the networks want it; whatever is wrong with the file, it is named."""
    unreadable = reading(
        path, DatasetError, "is not a readable image", remedy="copy it again, or take it out of the folder"
    )
    with unreadable, Image.open(path, formats=FORMATS) as file:
        PIXELS.check(path, file.width * file.height, DatasetError)
        return _cut(file.convert("RGB"))


def _cut(image: Image.Image) -> Image.Image:
    if image.size == (SIZE, SIZE):
        return image
    shorter = min(image.size)
    if max(image.size) > _LONGEST * shorter:  # a strip of pixels would grow by the square of its length
        image = _middle(image, *(min(side, _LONGEST * shorter) for side in image.size))
    width, height = (_SHORTER_SIDE * side // shorter for side in image.size)
    return _middle(image.resize((width, height), Image.Resampling.BILINEAR), SIZE, SIZE)


def _middle(image: Image.Image, width: int, height: int) -> Image.Image:
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
