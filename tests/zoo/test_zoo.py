"""Datasets and checkpoints: read as numbers, refused with a reason."""

import gzip
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import holdfast as hf
from experiments.paper.reproduce import PLAIN
from experiments.training.reproduce import BEST, STUDIES
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint, save_checkpoint
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.datasets.labelled import LabelledInputs
from holdfast.zoo.datasets.open import open_dataset
from holdfast.zoo.pretrained import load_embedded_model

SMALL = Architecture("small-cnn", 1, 8, 3)


def test_the_embedded_images_are_every_20th_of_the_test_set() -> None:
    data = load_fashion_mnist()
    assert len(data) == 500
    assert data.indices.tolist() == list(range(0, 10_000, 20))
    assert data.images.shape == (500, 1, 28, 28)
    assert data.images.dtype == np.uint8
    assert set(data.labels.tolist()) == set(range(10))
    assert np.array_equal(data.image(3), data.images[3].astype(np.float32) / 255)


def test_the_embedded_network_is_accurate_and_says_how_it_was_made() -> None:
    checkpoint, data = load_embedded_model(), load_fashion_mnist()
    with torch.inference_mode():
        answers = checkpoint.net(torch.from_numpy(data.batch(np.arange(500)))).argmax(1).numpy()
    assert (answers == data.labels).mean() > 0.85
    assert checkpoint.notes["command"].startswith("holdfast train --data ")
    assert checkpoint.notes["sigma"] == "0.25"


@pytest.mark.parametrize("sigma", ["0.25", "0.50"])
@pytest.mark.parametrize("kind", ["", "plain-", "sharp-"])
def test_the_embedded_networks_for_cifar10_say_how_they_were_made(kind: str, sigma: str) -> None:
    study = STUDIES["cifar10"]
    training = {
        "": f"{study.training} {study.objectives[sigma][BEST[sigma]]}",
        "plain-": PLAIN,
        "sharp-": "--arch resnet110 --epochs 45 --sharpness 0.5",
    }
    checkpoint = load_embedded_model(f"cifar10-{kind}sigma{sigma}")
    command = checkpoint.notes["command"].split()
    assert command[:2] == ["holdfast", "train"]
    assert {sigma, checkpoint.architecture.name, *training[kind].split()} <= set(command)
    assert checkpoint.architecture == Architecture("resnet110" if kind else "resnet20x4", 3, 32, 10)
    assert checkpoint.notes["sigma"] == f"{float(sigma):g}"
    with torch.inference_mode():
        assert torch.isfinite(checkpoint.net(torch.rand(2, 3, 32, 32))).all()


def test_networks_and_datasets_are_loaded_by_name_or_path_and_go_together(tmp_path: Path) -> None:
    data = hf.datasets.load("fashion-mnist").every(100, 3)
    assert [y for _, y in data] == data.labels.tolist()
    certificates = hf.SmoothedClassifier(hf.load("fashion-mnist"), 0.25).certify_many(data, n=200)
    assert [each.predicted for each in certificates] == data.labels.tolist()
    net = SMALL.build().train()
    save_checkpoint(tmp_path / "net.safetensors", net, SMALL, {})
    mine = hf.load(tmp_path / "net.safetensors")
    assert not mine.training
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(mine(x), net.eval()(x))
    with pytest.raises(
        hf.CheckpointError, match="no checkpoint at fashion; expected a file of weights, or one of: fashion-mnist, "
    ):
        hf.load("fashion")


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    net = SMALL.build()
    path = tmp_path / "net.safetensors"
    save_checkpoint(path, net, SMALL, {"sigma": "0.25"})
    back = load_checkpoint(path)
    assert back.architecture == SMALL
    assert back.notes == {"sigma": "0.25"}
    assert all(
        torch.equal(a, b) for a, b in zip(net.state_dict().values(), back.net.state_dict().values(), strict=True)
    )
    before = path.read_bytes()
    with pytest.raises(hf.CheckpointError, match="exists already"):
        save_checkpoint(path, SMALL.build(), SMALL, {})
    assert path.read_bytes() == before


def test_a_checkpoint_is_as_readable_as_any_other_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "net.safetensors", SMALL.build(), SMALL, {})
    (tmp_path / "other").touch()
    assert (tmp_path / "net.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_torch_weights_in_the_fields_format_are_read(tmp_path: Path) -> None:
    net = SMALL.build()
    path = tmp_path / "net.pth.tar"
    state = {f"module.{name}": value for name, value in net.state_dict().items()}
    torch.save({"arch": "small_cnn", "epoch": 3, "state_dict": state}, path)
    back = load_checkpoint(path, default=SMALL)
    assert torch.equal(next(iter(back.net.parameters())), next(iter(net.parameters())))


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (exec, (f"open({str(self.path)!r}, 'w').close()",))


def test_a_checkpoint_with_code_in_it_is_refused_and_the_code_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    torch.save({"arch": "small-cnn", "state_dict": Bomb(trap)}, tmp_path / "net.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(trap)))
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    for name in ("net.pt", "plain.pt", "module.pt"):
        with pytest.raises(hf.CheckpointError, match=r"more than weights|not a readable"):
            load_checkpoint(tmp_path / name, default=SMALL)
    assert not trap.exists()


def test_foreign_and_broken_checkpoints_are_refused_with_a_reason(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    torch.save({"w": torch.zeros(2)}, tmp_path / "bare.pt")
    torch.save({"arch": "resnet9000", "state_dict": {}}, tmp_path / "unknown.pt")
    torch.save({"arch": "small-cnn", "state_dict": {"w": torch.zeros(2)}}, tmp_path / "misfit.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "bare.pt").read_bytes()[:100])
    save_checkpoint(tmp_path / "good.safetensors", SMALL.build(), SMALL, {})
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "good.safetensors").read_bytes()[:-50])
    reasons = {
        "foreign.safetensors": "holds 1 tensors .* and not the network they belong to. Name a function",
        "bare.pt": r"--model net.py:make, .*'arch'",
        "unknown.pt": "resnet9000",
        "misfit.pt": "does not fit",
        "cut.pt": "not a readable torch checkpoint",
        "cut.safetensors": "not a readable safetensors",
        "nowhere.pt": "no checkpoint at",
    }
    for name, reason in reasons.items():
        with pytest.raises(hf.CheckpointError, match=reason):
            load_checkpoint(tmp_path / name, default=SMALL)


def idx(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], *, cut: int = 0) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content[: len(content) - cut]))


def test_a_folder_of_idx_files_is_read_and_a_cut_one_refused(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (4, 5, 5)).astype(np.uint8)
    labels = np.arange(4, dtype=np.uint8)
    idx(tmp_path / "t10k-images-idx3-ubyte.gz", pictures)
    idx(tmp_path / "t10k-labels-idx1-ubyte.gz", labels)
    data = open_dataset(str(tmp_path))
    assert isinstance(data, LabelledInputs)
    assert np.array_equal(data.images[:, 0], pictures)
    assert data.labels.tolist() == [0, 1, 2, 3]
    with pytest.raises(hf.DatasetError, match="has no train-images"):
        open_dataset(str(tmp_path), split="train")
    with pytest.raises(hf.DatasetError, match="split must be"):
        open_dataset(str(tmp_path), split="val")
    idx(tmp_path / "t10k-images-idx3-ubyte.gz", pictures, cut=7)
    with pytest.raises(hf.DatasetError, match="promises shape"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize("shape", [(3, 8, 8), (3, 8, 8, 3), (3, 3, 8, 8), (3, 8, 8, 1)])
def test_npz_images_of_every_usual_shape_become_channels_first(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "d.npz", images=np.zeros(shape, dtype=np.uint8), labels=np.zeros(3, dtype=np.int32))
    assert open_dataset(str(tmp_path / "d.npz")).shape == ((3 if 3 in shape[1:] else 1), 8, 8)


def test_npz_archives_that_are_no_dataset_are_refused(tmp_path: Path) -> None:
    cases = {
        "must hold 'test_images'": {"x": np.zeros(3)},
        "one to one": {"images": np.zeros((3, 8, 8)), "labels": np.zeros(2, dtype=int)},
        "labels must be whole numbers": {"images": np.zeros((3, 8, 8)), "labels": np.zeros(3)},
        "must be uint8, or float": {"images": np.zeros((3, 8, 8), dtype=int), "labels": np.zeros(3, dtype=int)},
        "unpickled": {"images": np.array([{}], dtype=object), "labels": np.zeros(1, dtype=int)},
    }
    for reason, arrays in cases.items():
        np.savez(tmp_path / "d.npz", **arrays)  # type: ignore[arg-type]
        with pytest.raises(hf.DatasetError, match=reason):
            open_dataset(str(tmp_path / "d.npz"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(hf.DatasetError, match=r"neither an \.npz"):
        open_dataset(str(tmp_path / "folder"))


def test_archives_whose_insides_are_damaged_are_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    whole = gzip.compress(b"\x00\x00\x08\x03" + np.array([2, 4, 4], dtype=">u4").tobytes() + bytes(32))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(whole[:12] + b"\xff" * 8 + whole[20:])
    with pytest.raises(hf.DatasetError, match=r"images-idx3-ubyte\.gz cannot be read \(.*copy it again"):
        open_dataset(str(folder))
    archive = tmp_path / "data.npz"
    np.savez(archive, images=np.zeros((2, 4, 4), dtype=np.uint8))
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("labels.npy", b"not an array")
    with pytest.raises(hf.DatasetError, match=r"data\.npz is not a readable \.npz archive"):
        open_dataset(str(archive))


def test_an_architecture_of_impossible_size_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    for size, classes in ((2**20, 10), (28, -1), (0, 10), ("x", 10)):
        text = json.dumps({"name": "small-cnn", "channels": 1, "size": size, "classes": classes})
        save_file(SMALL.build().state_dict(), path, metadata={"holdfast.architecture": text})
        with pytest.raises(
            hf.CheckpointError, match=r"net\.safetensors does not describe its architecture .*whole numbers from 1 to"
        ):
            load_checkpoint(path)


@pytest.mark.parametrize("name", ["resnet20", "small-cnn"])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_network_of_the_zoo_is_traced_without_a_warning(name: str) -> None:
    net, batch = Architecture(name, 3, 8, 4).build().eval(), torch.rand(2, 3, 8, 8)
    program = torch.jit.trace(net, batch)  # type: ignore[no-untyped-call]
    assert torch.equal(program(batch), net(batch))


def test_what_is_no_name_path_or_count_is_refused_in_words(tmp_path: Path) -> None:
    wrong: Any
    for wrong in (3, None, ""):
        for load in (hf.load, hf.datasets.load):
            with pytest.raises(hf.InvalidArgument, match="name must be a path, as a string or a Path"):
                load(wrong)
    data = hf.datasets.load("fashion-mnist")
    for skip, at_most in ((0, 1), (1, 0), (1.5, None)):
        with pytest.raises(hf.InvalidArgument, match="must be a whole number, at least 1"):
            data.every(skip, at_most)  # type: ignore[arg-type]
