"""Small pictures of a run's inputs, many to a sheet."""

import base64
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.errors import DatasetError
from holdfast.runs.run import Run
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.datasets.open import EMBEDDED, open_dataset

_ACROSS = 20
_TILES = _ACROSS * _ACROSS
_SIDES = (128, 96, 64, 48, 32)
_BYTES = 6_000_000
_BYTES_PER_PIXEL = 0.35
_LOSSLESS_UP_TO = 2_000_000


@dataclass(frozen=True)
class Sheets:
    """Pictures in the order of the run's inputs, ``across`` by ``across`` to a sheet, each ``width`` by ``height`` pixels."""

    sheets: tuple[str, ...]
    across: int
    width: int
    height: int


def pictures_of(runs: Sequence[Run], names: Sequence[str]) -> dict[int, Sheets]:
    """Pictures of the runs' inputs, by the position of the run: from the data named, and from the embedded data.

    Each of the data named must be those of at least one run.
    """
    found: dict[int, Sheets] = {}
    for name in names:
        refusals = []
        for position, run in enumerate(runs):
            data = open_dataset(name, split=str(run.config.get("split", "test")), size=run.config.get("size"))
            try:
                found[position] = thumbnails(run, data)
            except DatasetError as refusal:
                refusals.append(refusal)
        if len(refusals) == len(runs):
            raise refusals[0]
    for position, run in enumerate(runs):
        if position not in found and run.config.get("data") == EMBEDDED and run.config["kind"] == "certified":
            with suppress(DatasetError):  # a folder of one's own may have the embedded data's name
                found[position] = thumbnails(run, open_dataset(EMBEDDED))
    return found


def thumbnails(run: Run, data: LabelledData) -> Sheets:
    """The inputs of a run as pictures; refused if the data are not those the run was made from."""
    positions = check_same_inputs(run, data)
    if len(data.shape) != 3 or data.shape[0] not in (1, 3):
        raise DatasetError(f"{data.name} holds inputs of shape {data.shape}; pictures have 1 or 3 channels")

    def pixels(k: int) -> NDArray[np.uint8]:
        return np.rint(np.clip(data.image(int(positions[k])), 0, 1) * 255).astype(np.uint8)

    return sheets_of(len(run), data.shape, pixels)


def sheets_of(count: int, shape: tuple[int, ...], pixels: Callable[[int], NDArray[np.uint8]]) -> Sheets:
    """So many pictures, shrunk if they would take too much room; ``pixels`` gives each of them when it is its turn."""
    side = next((side for side in _SIDES if count * side**2 * _BYTES_PER_PIXEL <= _BYTES), _SIDES[-1])
    channels, height, width = shape
    shrink = min(1.0, side / max(height, width))
    size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    lossless = count * size[0] * size[1] * channels <= _LOSSLESS_UP_TO
    made = [
        _sheet([pixels(k) for k in range(first, min(first + _TILES, count))], size, lossless=lossless)
        for first in range(0, count, _TILES)
    ]
    return Sheets(tuple(made), _ACROSS, *size)


def check_same_inputs(run: Run, data: LabelledData) -> NDArray[np.int64]:
    """Where the run's inputs are in the data; compared by index, label and, where the run recorded one, fingerprint."""
    where = {int(index): position for position, index in enumerate(data.indices)}
    missing = [index for index in run.answers.index.tolist() if index not in where]
    if missing:
        raise DatasetError(f"{data.name} has no input {missing[0]}, which is in {run.path}; give the run's own data")
    positions = np.array([where[index] for index in run.answers.index.tolist()], dtype=np.int64)
    differing = np.flatnonzero(data.labels[positions] != run.answers.label)
    if differing.size:
        k = int(differing[0])
        raise DatasetError(
            f"input {run.answers.index[k]} has label {run.answers.label[k]} in {run.path} and {data.labels[positions[k]]} in {data.name}; "
            f"give the run's own data"
        )
    recorded = run.config.get("fingerprints", {}).get("images")
    asked = data.every(int(run.config.get("skip") or 1), run.config.get("max"))
    if recorded and np.array_equal(np.sort(asked.indices), np.sort(run.answers.index)) and asked.digest() != recorded:
        raise DatasetError(f"{data.name} has other images than {run.path} was made from; give the run's own data")
    return positions


def _sheet(pictures: Sequence[NDArray[np.uint8]], size: tuple[int, int], *, lossless: bool) -> str:
    grey = len(pictures[0]) == 1
    rows = -(-len(pictures) // _ACROSS)
    sheet = Image.new("L" if grey else "RGB", (_ACROSS * size[0], rows * size[1]))
    for k, pixels in enumerate(pictures):
        picture = Image.fromarray(pixels[0] if grey else np.moveaxis(pixels, 0, -1))
        if picture.size != size:
            picture = picture.resize(size, Image.Resampling.LANCZOS)
        sheet.paste(picture, (k % _ACROSS * size[0], k // _ACROSS * size[1]))
    file, kind = io.BytesIO(), "png" if lossless else "webp"
    if lossless:
        sheet.save(file, "PNG", optimize=True)
    else:
        sheet.save(file, "WEBP", quality=75)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
