"""From the bytes of a stranger to an input: nothing in them is trusted, and nothing large is made before it is checked."""

import io
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, conlist, create_model
from pydantic.config import JsonDict

from holdfast.service.refusals import Refusal

Array = NDArray[np.float32] | NDArray[np.float64]

_LONGEST_HEADER = 1_024
_OPAQUE = 255


def read_input(content: bytes, content_type: str, shape: Sequence[int]) -> Array:
    """The input in a body of this type; pixels of image files become numbers in [0, 1]."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _READERS:
        raise Refusal(415, f"expected a body of type {', '.join(_READERS)}, got {content_type[:80]!r}")
    if not content:
        raise Refusal(400, f"expected an input of shape {tuple(shape)} in the body, got nothing")
    return _READERS[kind](content, tuple(shape))


@lru_cache
def json_body(shape: tuple[int, ...], within: tuple[float, float] | None = None) -> type[BaseModel]:
    """``{"input": [[...]]}``, nested as deep as the shape says; the range is for the document, and not checked here."""
    known: JsonDict | None = None if within is None else {"minimum": within[0], "maximum": within[1]}
    nested: Any = Annotated[float, Field(allow_inf_nan=False, json_schema_extra=known)]
    for length in reversed(shape):
        nested = Annotated[conlist(nested, min_length=length, max_length=length), FailFast()]
    return create_model("Input", __config__=ConfigDict(extra="forbid", strict=True), input=(nested, ...))


def an_input(shape: Sequence[int], *, within: tuple[float, float] | None) -> dict[str, Any]:
    """The body of an input: JSON with numbers in a range if there is one, an image file, or an array file."""
    content: dict[str, Any] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in INPUT_TYPES}
    content["application/json"] = {"schema": json_body(tuple(shape), within).model_json_schema()}
    return {"requestBody": {"required": True, "content": content}}


def _read_json(content: bytes, shape: tuple[int, ...]) -> Array:
    try:
        body: Any = json_body(shape).model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the body"
        raise Refusal(
            400 if first["type"] == "json_invalid" else 422,
            f'expected {{"input": nested lists of shape {shape}}}; {where}: {first["msg"][:200]}',
        ) from error
    return np.array(body.input, dtype=np.float64)


def _read_npy(content: bytes, shape: tuple[int, ...]) -> Array:
    """An array file, never a pickle; one that says it is larger than the body is not filled."""
    try:
        # NumPy evaluates the header as a Python literal; a short one cannot take long.
        found = np.load(io.BytesIO(content), allow_pickle=False, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # what is evaluated may raise anything
        raise Refusal(
            400,
            f"the body is not a readable NPY file: expected numbers as numpy.save writes them, with a header of at most "
            f"{_LONGEST_HEADER:,} characters, got {len(content):,} bytes: {str(error)[:160]}",
        ) from error
    if not (isinstance(found, np.ndarray) and found.dtype.kind == "f" and found.itemsize in (2, 4, 8)):
        got = found.dtype if isinstance(found, np.ndarray) else "an archive"
        raise Refusal(422, f"expected 16, 32 or 64-bit floating-point numbers (x / 255 for bytes), got {str(got)[:80]}")
    if found.shape != shape:
        raise Refusal(422, f"expected an array of shape {shape}, got {found.shape}")
    return found.astype(np.float64, order="C") if found.itemsize == 8 else found.astype(np.float32, order="C")


def _read_image(content: bytes, shape: tuple[int, ...], kind: str) -> Array:
    """Decoded only if its header gives the very size that is expected: a small file cannot become a large image."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise Refusal(415, f"this model takes inputs of shape {shape}, not images; send NPY or JSON")
    channels, height, width = shape
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


def _as_channels(file: ImageFile, channels: int) -> Image.Image:
    """Grey or colour, as the model has it; 16 bits, which Pillow cuts down, and transparency are refused."""
    if any(";16" in str(tile) for tile in file.tile):
        raise Refusal(422, "expected at most 8 bits per channel, got 16; send the numbers in [0, 1] as NPY")
    colours = file.convert("RGBA")
    if colours.getchannel("A").getextrema() != (_OPAQUE, _OPAQUE):
        raise Refusal(422, "expected an opaque image, got one with transparent pixels; put it on a background first")
    return colours.convert("L" if channels == 1 else "RGB")


_READERS: dict[str, Callable[[bytes, tuple[int, ...]], Array]] = {
    "application/json": _read_json,
    "image/png": partial(_read_image, kind="PNG"),
    "image/jpeg": partial(_read_image, kind="JPEG"),
    "application/x-npy": _read_npy,
}
INPUT_TYPES = tuple(_READERS)
