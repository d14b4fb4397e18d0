"""ImageNet: its networks, and other people's weights for them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import holdfast as hf
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.efficientnet_lite import EfficientNetLite0, SameConv2d
from holdfast.zoo.foreign import zoo_name, zoo_state
from holdfast.zoo.resnet50 import IMAGENET_MEAN, IMAGENET_STD, ResNet50

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
