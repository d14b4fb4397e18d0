"""Folders of image files, one folder a class: ImageNet's layout. Images are read when they are asked for."""

import hashlib
import os
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
from holdfast.scores.rounding import format_count
from holdfast.zoo.datasets.labelled import LabelledData

SIZE = 224
_SHORTER_SIDE = 256
_LARGEST = 4_096
ORIGINAL, GREY = "original", "grey"
_GREY = ("1", "L", "LA")
"""Pillow's modes of images without colour."""
_REMEDY = "copy it again, or take it out of the folder"
_LONGEST = 16
"""Times the shorter side, of what is resized."""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Of the suffixes, and no others: Pillow would run a program for some."""
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Transform:
    """What images are read as: of this shape; resized to it unless ``original``, where all files must have it."""

    channels: int = 3
    height: int = SIZE
    width: int = SIZE
    original: bool = False

    def read(self, path: Path) -> Image.Image:
        """An image file, transformed; whatever is wrong with the file, it is named."""
        unreadable = reading(path, DatasetError, "is not a readable image", remedy=_REMEDY)
        with unreadable, Image.open(path, formats=FORMATS) as file:
            PIXELS.check(path, file.width * file.height, DatasetError)
            if not self.original:
                return _cut(file.convert(self._mode), self.height)
            if file.size != (self.width, self.height) or (self.channels == 1 and file.mode not in _GREY):
                raise DatasetError(
                    f"{path} is of {described(file)}, and the first image of {self}: as they are, all must be alike; give a size to "
                    f"resize them to, such as --size {SIZE}"
                )
            return file.convert(self._mode)

    @property
    def _mode(self) -> str:
        return "L" if self.channels == 1 else "RGB"

    def __str__(self) -> str:
        return f"{self.height} x {self.width}{', grey' if self.channels == 1 else ''}"


def described(file: Image.Image) -> str:
    """Height and width of an image, as the networks count them, and whether it is grey."""
    return f"{file.height} x {file.width}{', grey' if file.mode in _GREY else ''}"


@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder(LabelledData):
    """Files with labels, in the order of their paths; colour images of 224 x 224, unless ``transform`` says otherwise.

    An image of another size S is resized until its shorter side has 8/7 S pixels, and its middle is cut out, as is usual for
    ImageNet (256 and 224); of one that is more than 16 times as long as wide, the middle alone. The ball of a certificate is
    around the image after that.
    """

    name: str
    paths: tuple[Path, ...]
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]
    label_names: tuple[str, ...] = ()
    transform: Transform = Transform()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every image."""
        return (self.transform.channels, self.transform.height, self.transform.width)

    def image(self, position: int) -> NDArray[np.float32]:
        """One image in [0, 1]."""
        pixels = np.asarray(self.transform.read(self.paths[position]))
        bytes_ = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
        return np.ascontiguousarray(bytes_, dtype=np.float32) / np.float32(255.0)

    def at(self, kept: slice | NDArray[np.int64]) -> Self:
        """The images at these positions."""
        paths = tuple(self.paths[position] for position in np.arange(len(self))[kept])
        return replace(self, paths=paths, labels=self.labels[kept], indices=self.indices[kept])

    def check(self, on_images: OnDone = ignore) -> None:
        """Read every image once: that takes milliseconds each, and certifying one takes seconds."""
        for path in self.paths:
            self.transform.read(path)
            on_images(1)

    def changes(self) -> str:
        """Sizes, colours and transparency that files lose or gain when they are read."""
        seen: list[str] = []
        for path in self.paths:
            with (
                reading(path, DatasetError, "is not a readable image", remedy=_REMEDY),
                Image.open(path, formats=FORMATS) as file,
            ):
                resized = file.size != (self.transform.width, self.transform.height)
                coloured = (file.mode in _GREY) != (self.transform.channels == 1)
                if resized or coloured or "A" in file.mode or "transparency" in file.info:
                    seen.append(described(file))
        if not seen:
            return ""
        made = self.transform
        grey = f", --size {made.height}-{GREY} only resizes" if "grey" in seen[0] and made.channels == 3 else ""
        kept = "" if made.original else f"; --size original keeps sizes and grey as they are{grey}"
        return (
            f"{len(seen):,} of {format_count(len(self), 'image')} of {self.name}, such as one of {seen[0]}, are made "
            f"{made.height} x {made.width}, {'grey' if made.channels == 1 else 'colour'}, without transparency: a radius is measured "
            f"after that{kept}"
        )

    def digest(self) -> str:
        """A hash of all files."""
        found = hashlib.sha256(f"{self.shape} ".encode())
        for path in self.paths:
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        return found.hexdigest()


def load_image_folder(folder: Path, split: str, size: int | str | None = None) -> ImageFolder | None:
    """Read the names in ``folder/split/CLASS/*.jpg``, or in ``folder/CLASS/*.jpg``; None if there are none.

    ``size`` is what images are resized to, such as 32 or ``"32-grey"``; or ``"original"``, where all must be alike. Classes are
    numbered in the order of their folders' names; where every name is a number, that is the class.
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
        _transform(size, pairs[0][0]),
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
    """Files only: reading a pipe would never end."""
    with os.scandir(folder) as entries:
        for each in entries:
            if each.name.lower().endswith(_SUFFIXES) and not each.name.startswith(".") and each.is_file():
                yield Path(each.path)


def _transform(size: int | str | None, first: Path) -> Transform:
    """From what a user asks for."""
    if size == ORIGINAL:
        with (
            reading(first, DatasetError, "is not a readable image", remedy=_REMEDY),
            Image.open(first, formats=FORMATS) as file,
        ):
            return Transform(1 if file.mode in _GREY else 3, file.height, file.width, original=True)
    if size is None:
        return Transform()
    side, _, colour = size.partition("-") if isinstance(size, str) else (str(size), "", "")
    if not (side.isascii() and side.isdigit() and len(side) < 6 and 1 <= int(side) <= _LARGEST) or colour not in (
        "",
        GREY,
    ):
        raise DatasetError(
            f"size must be a number of pixels from 1 to {_LARGEST:,}, such as 32, or '32-{GREY}' for grey, or {ORIGINAL!r}, got {size!r}"
        )
    return Transform(1 if colour else 3, int(side), int(side))


def _cut(image: Image.Image, size: int) -> Image.Image:
    if image.size == (size, size):
        return image
    shorter = min(image.size)
    if max(image.size) > _LONGEST * shorter:  # a strip of pixels would grow by the square of its length
        image = _middle(image, *(min(side, _LONGEST * shorter) for side in image.size))
    width, height = (_SHORTER_SIDE * size // SIZE * side // shorter for side in image.size)
    return _middle(image.resize((width, height), Image.Resampling.BILINEAR), size, size)


def _middle(image: Image.Image, width: int, height: int) -> Image.Image:
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
