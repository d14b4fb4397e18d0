"""Other people's weights: from their names of architectures and parameters to the zoo's.

Cohen et al. save ``Sequential(NormalizeLayer, DataParallel(net))``, so that ``conv1.weight`` is ``1.module.conv1.weight``;
torchvision and others save the plain net, with no word of its architecture.
"""

import re
from collections.abc import Mapping

from torch import Tensor

_ARCHITECTURES = {"cifar-resnet20": "resnet20", "cifar-resnet110": "resnet110"}

_TELLTALES = {"layer3.5.conv3.weight": "resnet50", "blocks.15.project.0.weight": "efficientnet-lite0"}
"""A parameter that, of the architectures saved without a name, only this one has; the rest must then fit exactly."""

_HEADS = ("fc.weight", "head.weight")

_NORMALISATION = {
    "0.means": "normalize.mean",
    "0.sds": "normalize.std",
    "0.mean": "normalize.mean",
    "0.std": "normalize.std",
}

_LITE_PARTS = {
    "_conv_stem": "stem.0",
    "_bn0": "stem.1",
    "_conv_head": "top.0",
    "_bn1": "top.1",
    "_fc": "fc",
}
_LITE_BLOCK_PARTS = {
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}


def zoo_name(arch: str) -> str:
    """The zoo's name of an architecture, whoever named it."""
    plain = arch.replace("_", "-")
    return _ARCHITECTURES.get(plain, plain)


def zoo_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights under the zoo's names; names that are the zoo's already stay as they are."""
    return dict(_renamed(name, tensor) for name, tensor in _unwrapped(state).items())


def recognised(state: Mapping[str, Tensor]) -> str | None:
    """Which architecture weights with the zoo's names must be of, if that can be told."""
    return next((name for parameter, name in _TELLTALES.items() if parameter in state), None)


def classes_of(state: Mapping[str, Tensor]) -> int | None:
    """How many classes weights with the zoo's names know: the rows of the last layer."""
    return next((len(state[name]) for name in _HEADS if name in state and state[name].ndim == 2), None)


def _unwrapped(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefixes of DataParallel, and of a Sequential of a normalisation and the net."""
    plain = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    if any(name.startswith("1.") for name in plain) and all(name.startswith(("0.", "1.")) for name in plain):
        plain = {name.removeprefix("1.").removeprefix("module."): tensor for name, tensor in plain.items()}
    return plain


def _renamed(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    if name in _NORMALISATION:
        return _NORMALISATION[name], tensor.reshape(1, -1, 1, 1)
    if block := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name):
        number, part, parameter = block.groups()
        return f"blocks.{number}.{_LITE_BLOCK_PARTS.get(part, part)}.{parameter}", tensor
    part, _, parameter = name.partition(".")
    return (f"{_LITE_PARTS[part]}.{parameter}" if part in _LITE_PARTS else name), tensor
