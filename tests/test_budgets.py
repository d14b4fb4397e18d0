"""Small files that say they are large ones: refused with the limit and what raises it, before they take the memory."""

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import holdfast as hf
from holdfast.certificates.spot_check import SpotCheck
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.parquet import read_parquet
from holdfast.runs.store import parts_of, write_table
from holdfast.runs.tsv import read_log
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.datasets.open import open_dataset
from made_runs import made_run

ZEROS = 4_000_000
EXPANDED, PIXELS, ROWS, TEXT = (f"HOLDFAST_MAX_{what}" for what in ("EXPANDED_BYTES", "PIXELS", "ROWS", "TEXT_BYTES"))


def npz(folder: Path) -> Path:
    path = folder / "data.npz"
    images = np.zeros((ZEROS // 100, 10, 10), dtype=np.uint8)
    np.savez_compressed(path, images=images, labels=np.zeros(len(images), dtype=np.uint8))
    return path


def spot_check(folder: Path) -> Path:
    np.savez_compressed(folder / "spot_check.npz", rows=np.zeros((1, ZEROS), dtype=np.float32))
    return folder / "spot_check.npz"


def idx(folder: Path, *, promised: int = ZEROS // 100, more: int = 0) -> Path:
    pixels = gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, promised, 10, 10) + bytes(ZEROS + more))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(pixels)
    labels = struct.pack(">4BI", 0, 0, 8, 1, ZEROS // 100) + bytes(ZEROS // 100)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)
    return folder


def png(folder: Path, width: int = 2_000, height: int = 2_000) -> Path:
    """A grey picture of one colour, with hardly any data."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    (folder / "0").mkdir(exist_ok=True)
    path = folder / "0" / "picture.png"
    pixels = zlib.compress(bytes((width + 1) * height), 9)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
    return folder


def cifar10(folder: Path) -> Path:
    Image.new("RGB", (1024, 300)).save(folder / "test_batch.png")
    (folder / "test_lables.json").write_text(json.dumps([0] * 300))
    return folder


def cifar10_labels(folder: Path) -> Path:
    cifar10(folder)
    (folder / "test_lables.json").write_text("[0]" + " " * ZEROS)
    return folder


def parquet(folder: Path) -> Path:
    path = folder / "table.parquet"
    pq.write_table(
        pa.table({"index": np.zeros(ZEROS // 8, dtype=np.int64)}), path, use_dictionary=False, compression="zstd"
    )
    return path


def log(folder: Path) -> Path:
    (folder / "log.tsv").write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n" + "0\t0\t0\t0\t1\t0\n" * 1_000)
    return folder / "log.tsv"


def config(folder: Path) -> Path:
    run = made_run(folder / "run", 1).path
    (run / "run.json").write_text((run / "run.json").read_text() + " " * ZEROS)
    return run


def manifest(folder: Path) -> Path:
    run = made_run(folder / "run", 1)
    run.folder.seal(run.config)
    (run.path / "manifest.json").write_text(" " * ZEROS)
    return run.path


def repeated_weights(folder: Path) -> Path:
    """One number on the disk, which the file calls four million."""
    torch.save({"arch": "resnet50", "state_dict": {"fc.weight": torch.zeros(1).expand(ZEROS)}}, folder / "net.pt")
    return folder / "net.pt"


def deflated_weights(folder: Path) -> Path:
    plain = io.BytesIO()
    torch.save({"arch": "resnet50", "state_dict": {"fc.weight": torch.zeros(1)}, "more": torch.zeros(ZEROS)}, plain)
    path = folder / "net.pt"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return path


def weights(path: Path) -> object:
    return load_checkpoint(path, default=Architecture("resnet50", 3, 224, 10))


def dataset(path: Path) -> object:
    data = open_dataset(str(path))
    data.check()
    return data


def table(path: Path) -> object:
    return read_parquet(path)


CASES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object], str, int]] = {
    "npz, unpacked": (npz, dataset, EXPANDED, 1_000_000),
    "npz, rows": (npz, dataset, ROWS, 39_999),
    "spot check, unpacked": (spot_check, SpotCheck.read, EXPANDED, 1_000_000),
    "idx, unpacked": (idx, dataset, EXPANDED, 1_000_000),
    "idx, rows": (idx, dataset, ROWS, 39_999),
    "image, pixels": (png, dataset, PIXELS, 3_999_999),
    "cifar10, pixels": (cifar10, dataset, PIXELS, 1024 * 300 - 1),
    "cifar10, labels": (cifar10_labels, dataset, TEXT, ZEROS),
    "parquet, unpacked": (parquet, table, EXPANDED, 1_000_000),
    "parquet, rows": (parquet, table, ROWS, ZEROS // 8 - 1),
    "log": (log, read_log, TEXT, 12_000),
    "run.json": (config, hf.Run.open, TEXT, ZEROS),
    "manifest.json": (manifest, hf.Run.open, TEXT, ZEROS - 1),
    "torch, repeated": (repeated_weights, weights, EXPANDED, 1_000_000),
    "torch, unpacked": (deflated_weights, weights, EXPANDED, 1_000_000),
}


def said_of(read: Callable[[], object]) -> str:
    try:
        read()
    except hf.HoldfastError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_takes_more_than_its_budget_is_refused_with_the_limit_and_what_raises_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, read, variable, limit = CASES[case]
    path = make(tmp_path)
    monkeypatch.setenv(variable, str(limit))
    with pytest.raises(hf.HoldfastError, match=rf"more than the {limit:,} that are read.*{variable}=\d+") as refused:
        read(path)
    monkeypatch.setenv(variable, str(refused.value).rpartition("=")[2])
    assert variable not in said_of(lambda: read(path)), "what the message says is not enough"


@pytest.mark.parametrize("value", ["many", "-1", "1e9", "9" * 30])
def test_a_budget_is_a_whole_number(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIXELS, value)
    with pytest.raises(hf.InvalidArgument, match=f"{PIXELS} must be a whole number of pixels, got '{value}'"):
        dataset(png(tmp_path))


def peak(read: Callable[[], object]) -> int:
    """The bytes that Python and NumPy held at most while something was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(hf.HoldfastError):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_archive_that_lies_about_its_members_is_read_no_further_than_it_says(tmp_path: Path) -> None:
    path = npz(tmp_path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        true = archive.getinfo("images.npy").file_size
    assert content.count(struct.pack("<I", true)) >= 1
    path.write_bytes(content.replace(struct.pack("<I", true), struct.pack("<I", 1_000)))
    with pytest.raises(hf.DatasetError, match=r"not a readable \.npz archive"):
        dataset(path)


def test_an_array_that_claims_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    path, claimed = tmp_path / "data.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(claimed, {"descr": "|u1", "fortran_order": False, "shape": (2**45, 10, 10)})
    np.savez(path, labels=np.zeros(3, dtype=np.int64))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images.npy", claimed.getvalue() + bytes(300))
    with pytest.raises(hf.DatasetError, match=r"not a readable \.npz archive"):
        dataset(path)


def test_an_idx_file_is_read_no_further_than_it_promises(tmp_path: Path) -> None:
    path = idx(tmp_path, promised=3, more=20 * ZEROS)
    assert peak(lambda: dataset(path)) < ZEROS
    with pytest.raises(hf.DatasetError, match=r"promises shape .* but holds more bytes"):
        dataset(path)


@pytest.mark.parametrize(("width", "height"), [(20_000, 1), (1, 20_000)])
def test_a_strip_of_pixels_is_cut_before_it_is_resized(
    width: int, height: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    resize = Image.Image.resize

    def watched(image: Image.Image, size: tuple[int, int], *args: object) -> Image.Image:
        sizes.append(size)
        return resize(image, size, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Image.Image, "resize", watched)
    found = open_dataset(str(png(tmp_path, width, height))).image(0)
    assert found.shape == (3, 224, 224)
    assert max(sizes[0]) == 16 * 256


def test_a_strip_keeps_its_middle(tmp_path: Path) -> None:
    strip = np.zeros((10, 400), dtype=np.uint8)
    strip[:, 200:] = 255
    (tmp_path / "0").mkdir()
    Image.fromarray(strip).save(tmp_path / "0" / "strip.png")
    found = open_dataset(str(tmp_path)).image(0)
    assert (found[:, :, :90] == 0).all()
    assert (found[:, :, 134:] == 1).all()


def test_a_file_that_is_no_picture_is_not_given_to_the_programs_of_others(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "picture.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(hf.DatasetError, match="cannot identify image file"):
        open_dataset(str(tmp_path)).image(0)


@pytest.mark.parametrize("sizes", [{"classes": 900_000, "size": 8_000}, {"channels": 10**10}, {"size": 2**70}])
def test_sizes_that_weights_only_claim_take_no_memory(sizes: dict[str, int], tmp_path: Path) -> None:
    said = json.dumps({"name": "small-cnn", "channels": 1, "size": 28, "classes": 10, **sizes})
    path = tmp_path / "net.safetensors"
    save_file({"head.weight": torch.zeros(10, 1024)}, path, metadata={"holdfast.architecture": said})
    with pytest.raises(hf.CheckpointError, match=r"does not fit the architecture|must be whole numbers from 1"):
        load_checkpoint(path)


@pytest.mark.parametrize("bins", [2**31 - 1, 0, -5])
def test_a_histogram_of_a_run_has_so_many_bins_at_most(bins: int, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", 2)
    (part,) = parts_of(run.folder)
    table = pq.read_table(part)
    column = pa.array([bins] * len(table), pa.int32())
    write_table(run.folder, 0, table.set_column(table.schema.get_field_index("bins"), "bins", column))
    with pytest.raises(hf.RunError, match=f"histograms of {bins} bins, expected 2 to|bins is negative"):
        list(CertifiedRun(run.folder))
