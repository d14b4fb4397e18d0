"""The networks that ship with Holdfast."""

from importlib.resources import as_file, files

from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint

EMBEDDED_MODEL = "fashion-mnist"
EMBEDDED_SIGMA = 0.25
EMBEDDED_MODELS = {
    EMBEDDED_MODEL: "fashion_mnist_sigma0.25.safetensors",
    "cifar10-sigma0.25": "cifar10_resnet110_sigma0.25.safetensors",
    "cifar10-sigma0.50": "cifar10_resnet110_sigma0.50.safetensors",
}
"""A small network for Fashion-MNIST and the paper's ResNet-110 for CIFAR-10, each trained with noise of its sigma."""


def load_embedded_model(name: str = EMBEDDED_MODEL) -> Checkpoint:
    """A network by its name in :data:`EMBEDDED_MODELS`; its notes hold the command that made it."""
    resource = files("holdfast.zoo").joinpath("data", EMBEDDED_MODELS[name])
    with as_file(resource) as path:
        return load_checkpoint(path)
