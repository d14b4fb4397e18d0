"""From the bytes of a stranger to an input: nothing in them is trusted, and nothing large is made before it is checked."""

import io
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, conlist, create_model
from pydantic.config import JsonDict

from holdfast.service.refusals import Refusal

Array = NDArray[np.float32] | NDArray[np.float64]

_LONGEST_HEADER = 1_024
_HEADER_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_MODES = ("1", "L", "P", "LA", "PA", "RGB", "RGBA", "CMYK")
_OPAQUE = 255
_PNG = b"\x89PNG\r\n\x1a\n"
_DEPTH_AT = 24
_DEPTH = 8


def read_input(content: bytes, content_type: str, shape: Sequence[int]) -> Array:
    """The input in a body of this type; pixels of image files become numbers in [0, 1]."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _READERS:
        raise Refusal(415, f"expected a body of type {', '.join(_READERS)}, got {content_type[:80]!r}")
    if not content:
        raise Refusal(400, f"expected an input of shape {_words(shape)} in the body, got nothing")
    return _READERS[kind](content, tuple(shape))


@lru_cache
def json_body(shape: tuple[int, ...], within: tuple[float, float] | None = None) -> type[BaseModel]:
    """``{"input": [[...]]}``, nested as deep as the shape says; the range is for the document, and not checked here."""
    known: JsonDict | None = None if within is None else {"minimum": within[0], "maximum": within[1]}
    nested: Any = Annotated[float, Field(allow_inf_nan=False, json_schema_extra=known)]
    for length in reversed(shape):
        nested = Annotated[conlist(nested, min_length=length, max_length=length), FailFast()]
    return create_model("Input", __config__=ConfigDict(extra="forbid", strict=True), input=(nested, ...))


def _read_json(content: bytes, shape: tuple[int, ...]) -> Array:
    try:
        body: Any = json_body(shape).model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the body"
        raise Refusal(
            400 if first["type"] == "json_invalid" else 422,
            f'expected {{"input": nested lists of shape {_words(shape)}}}; {where}: {first["msg"][:200]}',
        ) from error
    return np.array(body.input, dtype=np.float64)


def _read_npy(content: bytes, shape: tuple[int, ...]) -> Array:
    """An array file: the header is read by NumPy, the numbers only if they are the expected ones; never a pickle."""
    file = io.BytesIO(content)
    try:
        # NumPy evaluates the header as a Python literal; a short one cannot take long.
        read_header = _HEADER_READERS[npy_format.read_magic(file)]
        found, fortran, dtype = read_header(file, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # what is evaluated may raise anything
        raise Refusal(
            400,
            f"the body is not a readable NPY file: expected version 1 or 2 and a header of at most {_LONGEST_HEADER:,} characters, "
            f"such as {{'descr': '<f4', 'fortran_order': False, 'shape': (1, 28, 28), }}, got {content[:80]!r}",
        ) from error
    if dtype.kind != "f" or dtype.itemsize not in (2, 4, 8):
        raise Refusal(
            422, f"expected floating-point numbers, got {str(dtype)[:80]}; for an image of bytes send x / 255"
        )
    if found != shape:
        raise Refusal(422, f"expected an array of shape {_words(shape)}, got {_words(found)}")
    data = file.read()
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise Refusal(
            400,
            f"an array of shape {_words(shape)} and type {dtype} has {math.prod(shape) * dtype.itemsize:,} bytes, got {len(data):,}",
        )
    numbers = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.itemsize == 8:
        return numbers.astype(np.float64, order="C")
    return numbers.astype(np.float32, order="C")


def _read_image(content: bytes, shape: tuple[int, ...], kind: str) -> Array:
    """Decoded only if its header gives the very size that is expected: a small file cannot become a large image."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise Refusal(415, f"this model takes inputs of shape {_words(shape)}, not images; send NPY or JSON")
    channels, height, width = shape
    if kind == "PNG":
        _check_depth(content)
    try:
        with Image.open(io.BytesIO(content), formats=(kind,)) as file:
            if file.size != (width, height):
                raise Refusal(
                    422,
                    f"expected an image of {width} x {height} pixels, got {file.size[0]} x {file.size[1]}; "
                    f"resize it first: the certificate is about the pixels that the model sees",
                )
            pixels = _as_channels(file, channels)
    except Refusal:
        raise
    except Exception as error:  # a decoder may raise anything at bytes that are not what they claim to be
        reason = (
            f"it does not start as {kind} files do" if isinstance(error, UnidentifiedImageError) else str(error)[:160]
        )
        raise Refusal(400, f"the body is not a readable {kind} image: {reason}") from error
    bytes_ = np.asarray(pixels, dtype=np.uint8).reshape(height, width, channels)
    return np.ascontiguousarray(np.moveaxis(bytes_, -1, 0), dtype=np.float32) / np.float32(255.0)


def _check_depth(content: bytes) -> None:
    """Pillow cuts 16-bit colours down to 8 bits without a word, so the header itself is asked; it is the first chunk."""
    if not content.startswith(_PNG) or content[12:16] != b"IHDR" or len(content) <= _DEPTH_AT:
        raise Refusal(400, "the body is not a readable PNG image: it does not start with a PNG header")
    depth = content[_DEPTH_AT]
    if depth > _DEPTH:
        raise Refusal(
            422, f"expected at most {_DEPTH} bits per channel, got {depth}; send the numbers in [0, 1] as NPY"
        )


def _as_channels(file: Image.Image, channels: int) -> Image.Image:
    """Grey or colour, as the model has it; 16 bits and transparency have no one meaning, and are refused."""
    file.load()
    if file.mode not in _MODES:
        raise Refusal(422, f"expected 8 bits per channel, got mode {file.mode}; send the numbers in [0, 1] as NPY")
    colours = file.convert("RGBA")
    if colours.getchannel("A").getextrema() != (_OPAQUE, _OPAQUE):
        raise Refusal(422, "expected an opaque image, got one with transparent pixels; put it on a background first")
    return colours.convert("L" if channels == 1 else "RGB")


def _words(shape: Sequence[int]) -> str:
    return "(" + ", ".join(str(each) for each in shape)[:200] + ")"


_READERS: dict[str, Callable[[bytes, tuple[int, ...]], Array]] = {
    "application/json": _read_json,
    "image/png": partial(_read_image, kind="PNG"),
    "image/jpeg": partial(_read_image, kind="JPEG"),
    "application/x-npy": _read_npy,
}
INPUT_TYPES = tuple(_READERS)
