"""Folders that Hugging Face's ``datasets`` writes with ``save_to_disk``: read by pyarrow, without that library."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from holdfast.budgets import PIXELS, ROWS, check_expansion, read_text
from holdfast.errors import DatasetError, reading
from holdfast.zoo.datasets.image_folder import FORMATS
from holdfast.zoo.datasets.labelled import LabelledInputs
from holdfast.zoo.datasets.table import inputs_of

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_MOST_NUMBERS = 2**31


def holds_arrow(folder: Path) -> bool:
    """Whether a folder is a dataset, or several splits of one."""
    return (folder / _SPLITS).is_file() or ((folder / _STATE).is_file() and (folder / _INFO).is_file())


def load_arrow(folder: Path, split: str) -> LabelledInputs:
    """Images with their classes, or rows of numbers with a column of labels. Images keep their size, which must be one."""
    remedy = "write it again with save_to_disk"
    with reading(folder, DatasetError, "is not a readable folder of datasets", remedy=remedy):
        place = folder
        if (folder / _SPLITS).is_file():
            splits = sorted(map(str, _json(folder / _SPLITS)["splits"]))
            if split not in splits:
                raise DatasetError(f"{folder} has no split {split!r}; it has: {', '.join(splits)}")
            place = _within(folder, split)
        features = _json(place / _INFO)["features"]
        table = _table(place, [str(each["filename"]) for each in _json(place / _STATE)["_data_files"]])
        if table.num_rows == 0:
            raise DatasetError(f"{place} is empty")
        images = [name for name, kind in features.items() if _kind(kind) == "Image"]
        classes = [name for name, kind in features.items() if _kind(kind) == "ClassLabel"]
        words = tuple(map(str, features[classes[0]].get("names", ()))) if len(classes) == 1 else ()
        if not images:
            return inputs_of(place, folder.name, table, classes[0] if len(classes) == 1 else None, words)
        if len(images) != 1 or len(classes) != 1:
            raise DatasetError(
                f"{place} must have one column of images and one of classes (ClassLabel), got {images} and {classes}"
            )
        labels = table[classes[0]].to_numpy().astype(np.int64)
        pixels = _images(place, table[images[0]])
    return LabelledInputs(folder.name, pixels, labels, np.arange(len(labels)), words)


def _json(path: Path) -> Any:
    return json.loads(read_text(path, DatasetError))


def _kind(feature: object) -> str:
    return str(feature.get("_type")) if isinstance(feature, Mapping) else ""


def _within(folder: Path, name: str) -> Path:
    """A part of a folder; what points elsewhere is refused."""
    if Path(name).name != name:
        raise DatasetError(f"{folder} names a file outside itself: {name!r}")
    return folder / name


def _table(folder: Path, names: list[str]) -> pa.Table:
    parts, rows = [], 0
    for name in names:
        path = _within(folder, name)
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                rows += batch.num_rows
                ROWS.check(path, rows, DatasetError)
                check_expansion(path, batch.nbytes, DatasetError)
                parts.append(batch)
            schema = stream.schema
    return pa.Table.from_batches(parts, schema if names else None)


def _images(folder: Path, column: pa.ChunkedArray) -> NDArray[np.uint8]:
    """(count, channels, height, width): grey images have one channel, all others three."""
    found: NDArray[np.uint8] | None = None
    mode = ""
    for number, held in enumerate(column):
        content = (held.as_py() or {}).get("bytes")
        if not content:
            raise DatasetError(
                f"{folder}: image {number} is not in the folder itself; write it with its images embedded"
            )
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            PIXELS.check(folder, image.width * image.height, DatasetError)
            if found is None:
                mode = "L" if image.mode in ("1", "L") else "RGB"
                shape = (len(column), len(mode) if mode == "RGB" else 1, image.height, image.width)
                if np.prod(shape, dtype=np.float64) > _MOST_NUMBERS:
                    raise DatasetError(f"{folder} has {shape} numbers, more than are read at once; write a part of it")
                found = np.empty(shape, dtype=np.uint8)
            pixels = np.atleast_3d(np.asarray(image.convert(mode)))
        if pixels.shape[:2] != found.shape[2:]:
            raise DatasetError(
                f"{folder}: image {number} has {pixels.shape[1]} x {pixels.shape[0]} pixels, and image 0 {found.shape[3]} x "
                f"{found.shape[2]}; resize them to one size first"
            )
        found[number] = np.moveaxis(pixels, -1, 0)
    assert found is not None
    return found
