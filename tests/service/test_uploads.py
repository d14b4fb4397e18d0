"""Uploads are never trusted: whatever the bytes, the answer is a certificate or a reason, and nothing else is disturbed."""

import io
import json
import math
import pickle
import random
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from holdfast.errors import InvalidInput
from holdfast.service.refusals import Refusal
from holdfast.service.uploads import INPUT_TYPES, read_input
from networks import images
from serving import NPY, SHAPE, npy, resident_bytes, running, small_served

CHEAP = "n=100&n0=10&claims=label&alpha=0.05&seed=5"
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 6), dtype=np.uint8)


def picture(kind: str, pixels: np.ndarray | None = None, mode: str | None = None) -> bytes:
    target = io.BytesIO()
    image = Image.fromarray(PIXELS if pixels is None else pixels)
    (image if mode is None else image.convert(mode)).save(target, kind)
    return target.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width: int, height: int, data: bytes, *others: bytes, depth: int = 8, colour: int = 0) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(others) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def array_file(header: str, data: bytes = bytes(144), version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    text = header.encode() + b"\n"
    claimed = len(text) if length is None else length
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", claimed) + text + data


GOOD_HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6, 6), }"
SPECIAL: list[tuple[str, bytes]] = [
    ("image/png", png(30_000, 30_000, zlib.compress(bytes(10**6)))),
    ("image/png", png(2**31 - 1, 2**31 - 1, b"")),
    ("image/png", png(0, 0, zlib.compress(b""))),
    ("image/png", png(6, 6, zlib.compress(bytes(10)))),
    ("image/png", png(6, 6, zlib.compress(bytes(42)), chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(20_000_000))))),
    ("image/png", png(6, 6, zlib.compress(bytes(42)), chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(20_000_000))))),
    ("image/png", picture("GIF")),
    ("image/png", picture("PNG", np.zeros((6, 6), dtype=np.uint16))),
    ("image/png", picture("PNG", np.zeros((6, 6, 4), dtype=np.uint8))),
    ("image/jpeg", picture("JPEG")[:-40]),
    ("image/jpeg", picture("JPEG", np.zeros((7, 6), dtype=np.uint8))),
    (NPY, npy(np.zeros((1, 6, 7), dtype=np.float32))),
    (NPY, npy(np.zeros(SHAPE, dtype=np.int64))),
    (NPY, npy(np.zeros(SHAPE, dtype=np.complex64))),
    (NPY, npy(np.full(SHAPE, np.nan, dtype=np.float32))),
    (NPY, npy(np.full(SHAPE, np.inf, dtype=np.float64))),
    (NPY, npy(np.full(SHAPE, 1e300, dtype=np.float64))),
    (NPY, npy(np.full(SHAPE, 300.0, dtype=np.float32))),
    (NPY, array_file("{'descr': '|O', 'fortran_order': False, 'shape': (1, 6, 6), }", pickle.dumps([0.5] * 36))),
    (NPY, array_file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }")),
    (NPY, array_file(GOOD_HEADER, length=65_000)),
    (NPY, array_file(GOOD_HEADER, version=b"\x02\x00", length=2**32 - 1)),
    (NPY, array_file("(" * 4_000)),
    (NPY, array_file("-" * 1_000 + "1")),
    (NPY, array_file("[" * 190 + "]" * 190)),
    (NPY, array_file("{[]: 1}")),
    (NPY, array_file("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 6L, 6L, }")),
    (NPY, array_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 6, 6), }")),
    (NPY, array_file("{'descr': '<f16', 'fortran_order': False, 'shape': (1, 6, 6), }", bytes(576))),
    (NPY, array_file(GOOD_HEADER + " " * 2_000)),
    (NPY, array_file(GOOD_HEADER, version=b"\x04\x00")),
    (NPY, array_file("__import__('os').system('true')")),
    (NPY, array_file(GOOD_HEADER, bytes(143))),
    (NPY, b"\x93NUMPY"),
    (NPY, b""),
    ("application/json", b'{"input": ' + b"[" * 200_000),
    ("application/json", b'{"input": NaN}'),
    ("application/json", b'{"input": 1' + b"0" * 5_000 + b"}"),
    ("application/json", json.dumps({"input": [[[10**400] * 6] * 6]}).encode()),
    ("application/json", json.dumps({"input": [[["0.5"] * 6] * 6]}).encode()),
    ("application/json", json.dumps({"input": [[[True] * 6] * 6]}).encode()),
    ("application/json", json.dumps({"input": [[[0.5] * 6] * 5 + [[0.5]]]}).encode()),
    ("application/json", json.dumps({"input": [[[0.5] * 6] * 6], "more": 1}).encode()),
    ("application/json", json.dumps([[[0.5] * 6] * 6]).encode()),
    ("application/json", b'{"input": [[[1e999]]]}'),
    ("application/json", b"\xff\xfe{"),
    ("text/html", b"<script>"),
    ("", b""),
]


def mutated(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Good bodies with bits flipped, parts cut out, doubled or moved, and under other types."""
    chance = random.Random(seed)
    good = [
        ("image/png", picture("PNG")),
        ("image/jpeg", picture("JPEG")),
        (NPY, npy(images(1)[0])),
        ("application/json", json.dumps({"input": images(1)[0].tolist()}).encode()),
    ]
    for _ in range(count):
        kind, content = chance.choice(good)
        body = bytearray(content)
        for _ in range(chance.choice((1, 1, 2, 8))):
            where = chance.randrange(len(body) or 1)
            # Headers are where lies do most, so half of the changes are made there.
            where = where % 64 if chance.random() < 0.5 else where
            what = chance.random()
            if what < 0.45 and where < len(body):
                body[where] = chance.choice((body[where] ^ (1 << chance.randrange(8)), 0, 255, chance.randrange(256)))
            elif what < 0.6:
                del body[where:]
            elif what < 0.75:
                del body[where : where + chance.randrange(1, 40)]
            elif what < 0.9:
                body[where:where] = body[where : where + chance.randrange(1, 40)]
            else:
                body[where:where] = chance.randbytes(chance.randrange(1, 200))
        if chance.random() < 0.1:
            kind = chance.choice((*INPUT_TYPES, "application/octet-stream"))
        yield kind, bytes(body)


@pytest.mark.parametrize("number", range(len(SPECIAL)))
def test_a_lying_body_is_refused_with_a_reason(number: int) -> None:
    kind, content = SPECIAL[number]
    smoothed = small_served().smoothed
    with pytest.raises((Refusal, InvalidInput)) as refused:  # noqa: PT012  the values are looked at by the library itself
        x = read_input(content, kind, SHAPE)
        smoothed.certify(x, n=100, claims=("label",), alpha=0.05)
    assert len(str(refused.value)) > 20
    if isinstance(refused.value, Refusal):
        assert 400 <= refused.value.status < 500


def test_600_malformed_uploads_disturb_nobody() -> None:
    bodies = [*SPECIAL, *mutated(5, 600)]
    with running() as found:
        x = images(1)[0]
        expected = found.certify(x, CHEAP).json()
        before = resident_bytes()
        statuses = []
        for kind, content in bodies:
            answer = found.client.post(f"/v1/certify?{CHEAP}", content=content, headers={"Content-Type": kind})
            statuses.append(answer.status_code)
            assert answer.status_code == 200 or len(answer.json()["error"]) > 20
        assert {each // 100 for each in statuses} <= {2, 4}
        assert sum(each >= 400 for each in statuses) >= 500
        again = found.certify(x, CHEAP).json()
        assert again["evidence"] == expected["evidence"]
        assert found.idle()
        assert resident_bytes() - before < 60e6


def test_more_data_than_an_image_has_is_not_unpacked() -> None:
    before = resident_bytes()
    bomb = png(6, 6, zlib.compress(bytes(100_000_000)))
    assert np.array_equal(read_input(bomb, "image/png", SHAPE), np.zeros(SHAPE, dtype=np.float32))
    assert resident_bytes() - before < 60e6


@contextmanager
def refusal(status: int, message: str) -> Iterator[None]:
    """A refusal with this status and message."""
    with pytest.raises(Refusal, match=message) as refused:
        yield
    assert refused.value.status == status


def test_what_is_wrong_is_named() -> None:
    with refusal(422, "expected an image of 6 x 6 pixels, got 7 x 5"):
        read_input(picture("PNG", np.zeros((5, 7), dtype=np.uint8)), "image/png", SHAPE)
    with refusal(422, "transparent"):
        read_input(picture("PNG", np.zeros((6, 6, 4), dtype=np.uint8)), "image/png", SHAPE)
    with refusal(422, "16"):
        read_input(picture("PNG", np.zeros((6, 6), dtype=np.uint16)), "image/png", SHAPE)
    # Colour type 2 has three channels of the depth, and each row of pixels begins with a byte for its filter.
    with refusal(422, "at most 8 bits per channel, got 16; send"):
        read_input(png(6, 6, zlib.compress(bytes(6 * 37)), depth=16, colour=2), "image/png", SHAPE)
    for colour, size, key in ((0, 7, 2), (2, 19, 6)):
        see_through = png(6, 6, zlib.compress(bytes(6 * size)), chunk(b"tRNS", bytes(key)), colour=colour)
        with refusal(422, "got one with transparent pixels"):
            read_input(see_through, "image/png", SHAPE)
    with refusal(422, r"numbers \(x / 255 for bytes\), got uint8"):
        read_input(npy(np.zeros(SHAPE, dtype=np.uint8)), NPY, SHAPE)
    with refusal(422, r"shape \(1, 6, 6\), got \(6, 6\)"):
        read_input(npy(np.zeros((6, 6), dtype=np.float32)), NPY, SHAPE)
    with refusal(400, r"not a readable NPY file.*got 216 bytes: EOF: reading array data, expected 144 bytes"):
        read_input(array_file(GOOD_HEADER, bytes(143)), NPY, SHAPE)
    with refusal(415, "application/json, image/png, image/jpeg, application/x-npy"):
        read_input(b"x", "text/plain", SHAPE)
    for kind in ("PNG", "JPEG"):
        with refusal(400, f"^the body is not a readable {kind} image: it does not start "):
            read_input(b"x" * 100, f"image/{kind.lower()}", SHAPE)


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ("[]", 422, "the body: Input should be an object"),
        ("{}", 422, "input: Field required"),
        ("{", 400, "the body: Invalid JSON"),
        ("[" * 100_000, 400, "the body: Invalid JSON"),
        (json.dumps({"input": [[[0.5] * 6] * 6], "more": 1}), 422, "more: Extra inputs are not permitted"),
        ('{"input": "x"}', 422, "input: Input should be a valid array"),
        (json.dumps({"input": [[[0.5] * 6]]}), 422, "input.0: List should have at least 6 items"),
        (json.dumps({"input": [[[0.5] * 6] * 5 + [[0.5] * 7]]}), 422, "input.0.5: List should have at most 6 items"),
        (json.dumps({"input": [[[True] * 6] * 6]}), 422, "input.0.0.0: Input should be a valid number"),
        (json.dumps({"input": [[["1"] * 6] * 6]}), 422, "input.0.0.0: Input should be a valid number"),
        (json.dumps({"input": [[[math.nan] * 6] * 6]}), 422, "input.0.0.0: Input should be a finite number"),
    ],
)
def test_wrong_json_is_described_by_where_and_what_it_is(content: str, status: int, said: str) -> None:
    with refusal(status, rf"nested lists of shape \(1, 6, 6\)}}; {re.escape(said)}"):
        read_input(content.encode(), "application/json", SHAPE)


def test_colours_become_what_the_model_has() -> None:
    colour = np.random.default_rng(1).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    found = read_input(picture("PNG", colour), "image/png", (3, 6, 6))
    assert np.array_equal(found, np.moveaxis(colour, -1, 0).astype(np.float32) / np.float32(255))
    opaque = np.dstack((colour, np.full((6, 6), 255, dtype=np.uint8)))
    assert np.array_equal(read_input(picture("PNG", opaque), "image/png", (3, 6, 6)), found)
    grey = np.asarray(Image.fromarray(colour).convert("L"), dtype=np.float32) / np.float32(255)
    assert np.array_equal(read_input(picture("PNG", colour), "image/png", SHAPE)[0], grey)
    plain = PIXELS.astype(np.float32) / np.float32(255)
    assert np.array_equal(read_input(picture("PNG", mode="LA"), "image/png", SHAPE)[0], plain)
    assert np.array_equal(read_input(picture("PNG"), "image/png", (3, 6, 6)), np.stack([plain] * 3))


def test_arrays_are_read_in_either_order_and_width() -> None:
    x = np.random.default_rng(1).random((3, 6, 6))
    for dtype in ("<f2", "<f4", ">f4", "<f8", ">f8"):
        for array in (x.astype(dtype), np.asfortranarray(x.astype(dtype))):
            assert np.array_equal(read_input(npy(array), NPY, (3, 6, 6)), x.astype(dtype))
    second = io.BytesIO()
    np.lib.format.write_array(second, x, version=(2, 0))
    assert np.array_equal(read_input(second.getvalue(), NPY, (3, 6, 6)), x)
