"""The networks that benchmarks are about, by name, with random weights."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a benchmark measures how long importing torch takes
    from torch import nn

    from holdfast.zoo.architecture import Architecture

SIZES = {
    "resnet110": 32,
    "resnet20": 32,
    "resnet20x4": 32,
    "small-cnn": 32,
    "resnet50": 224,
    "vit_base_patch16_224": 224,
    "convnext_base": 224,
}
"""Pixels a side of their images."""
TIMM = ("vit_base_patch16_224", "convnext_base")


def architecture(name: str) -> "Architecture":
    """Of a network that is Holdfast's own: ten classes of small images, or ImageNet's."""
    from holdfast.zoo.architecture import Architecture

    return Architecture(name, 3, SIZES[name], 10 if SIZES[name] == 32 else 1_000)


def network(name: str) -> "nn.Module":
    """In evaluation mode; timm's are made by timm, which is not one of Holdfast's packages."""
    import torch

    torch.manual_seed(0)
    if name not in TIMM:
        return architecture(name).build().eval()
    try:
        timm = import_module("timm")
    except ImportError as error:
        raise SystemExit(f"{name} is timm's: pip install timm ({error})") from error
    net: nn.Module = timm.create_model(name, pretrained=False)
    return net.eval()
