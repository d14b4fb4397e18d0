"""The network that ships with Holdfast."""

from importlib.resources import as_file, files

from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint

EMBEDDED_MODEL = "fashion-mnist"
EMBEDDED_SIGMA = 0.25


def load_embedded_model() -> Checkpoint:
    """A small network for Fashion-MNIST, trained with noise of sigma = 0.25; its notes hold the command that made it."""
    resource = files("holdfast.zoo").joinpath("data", "fashion_mnist_sigma0.25.safetensors")
    with as_file(resource) as path:
        return load_checkpoint(path)
