"""CIFAR-10 on disk, in both of its safe forms, and the residual networks made for it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.errors import DatasetError, InvalidArgument
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.open import open_dataset
from holdfast.zoo.resnet_cifar import ResNetCIFAR

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 4, 3, 32, 32), dtype=np.uint8)  # five training parts and a test part of 4 images
LABELS = RNG.integers(0, 10, (6, 4))


def write_pictures(folder: Path) -> None:
    for part in range(6):
        name = f"data_batch_{part + 1}" if part < 5 else "test_batch"
        rows = PIXELS[part].transpose(0, 2, 3, 1).reshape(4, 1_024, 3)
        Image.fromarray(rows).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(LABELS[:5].ravel().tolist()))
    (folder / "test_lables.json").write_text(json.dumps(LABELS[5].tolist()))


def write_binary(folder: Path) -> None:
    for part in range(6):
        name = f"data_batch_{part + 1}" if part < 5 else "test_batch"
        rows = np.concatenate((LABELS[part][:, None].astype(np.uint8), PIXELS[part].reshape(4, -1)), axis=1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())


@pytest.mark.parametrize("write", [write_pictures, write_binary])
def test_both_forms_hold_the_same_images_in_the_standard_order(tmp_path: Path, write: object) -> None:
    assert callable(write)
    write(tmp_path)
    test, train = open_dataset(str(tmp_path), split="test"), open_dataset(str(tmp_path), split="train")
    assert np.array_equal(test.labels, LABELS[5])
    assert np.array_equal(train.labels, LABELS[:5].ravel())
    assert np.array_equal(test.image(2), (PIXELS[5, 2] / np.float32(255)).astype(np.float32))
    assert np.array_equal(train.image(7), (PIXELS[1, 3] / np.float32(255)).astype(np.float32))
    assert test.label_names[3] == "cat"


@pytest.mark.parametrize("write", [write_pictures, write_binary])
@pytest.mark.parametrize(("kept", "missing"), [("train", "test"), ("test", "train")])
def test_a_folder_with_one_split_is_read_and_the_other_split_is_said_to_be_missing(
    tmp_path: Path, write: object, kept: str, missing: str
) -> None:
    assert callable(write)
    write(tmp_path)
    for path in tmp_path.glob("test_*" if kept == "train" else "[!t]*"):
        path.unlink()
    expected = LABELS[:5].ravel() if kept == "train" else LABELS[5]
    assert np.array_equal(open_dataset(str(tmp_path), split=kept).labels, expected)
    with pytest.raises(
        DatasetError, match=rf"holds CIFAR-10's split '{kept}' only, got split '{missing}'; add \w+_batch"
    ):
        open_dataset(str(tmp_path), split=missing)


def test_missing_and_damaged_parts_are_named(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    with pytest.raises(DatasetError, match="'train' or 'test'"):
        open_dataset(str(tmp_path), split="val")
    (tmp_path / "data_batch_3.png").unlink()
    with pytest.raises(DatasetError, match=r"data_batch_3.png is missing"):
        open_dataset(str(tmp_path), split="train")
    (tmp_path / "test_lables.json").write_text("[1, 2, 11, 0]")
    with pytest.raises(DatasetError, match="class numbers from 0 to 9"):
        open_dataset(str(tmp_path), split="test")
    (tmp_path / "test_batch.png").write_bytes(b"not a picture")
    with pytest.raises(DatasetError, match="cannot be read"):
        open_dataset(str(tmp_path), split="test")
    (tmp_path / "test_batch.bin").write_bytes(b"12345")
    with pytest.raises(DatasetError, match="multiple of 3073"):
        open_dataset(str(tmp_path), split="test")


def test_the_residual_networks_have_their_published_sizes() -> None:
    # He et al., table 6: 0.27 and 1.7 million, to which the two strided shortcuts add 2,752 weights and norms.
    for depth, count in ((20, 272_474), (110, 1_730_714)):
        net = Architecture(f"resnet{depth}", 3, 32, 10).build()
        assert sum(parameter.numel() for parameter in net.parameters()) == count
    with pytest.raises(InvalidArgument, match="6k \\+ 2"):
        ResNetCIFAR(depth=52)


def test_a_residual_network_maps_images_to_logits_and_normalises_inside() -> None:
    net = ResNetCIFAR(depth=8, classes=7).eval()
    seen: list[torch.Tensor] = []
    net.conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    assert net(torch.full((2, 3, 32, 32), 0.4914)).shape == (2, 7)
    assert float(seen[0][:, 0].abs().max()) < 1e-6


def test_a_binary_file_of_too_many_images_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "test_batch.bin").open("wb") as file:
        file.truncate(3_073 * 20_000_000)  # 61 GB, of which the disk holds nothing
    with pytest.raises(
        DatasetError, match=r"test_batch.bin has 20,000,000 rows, more than the 10,000,000 that are read"
    ):
        open_dataset(str(tmp_path))
