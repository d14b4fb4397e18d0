"""An architecture by name, with the sizes it was built for: what a checkpoint must say to be rebuilt without pickled code."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from torch import nn

from holdfast.errors import InvalidArgument
from holdfast.zoo.efficientnet_lite import EfficientNetLite0
from holdfast.zoo.resnet50 import ResNet50
from holdfast.zoo.resnet_cifar import ResNetCIFAR
from holdfast.zoo.small_cnn import SmallCNN

_BUILDERS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "efficientnet-lite0": lambda _channels, _size, classes: EfficientNetLite0(classes=classes),
    "resnet110": lambda channels, _size, classes: ResNetCIFAR(depth=110, channels=channels, classes=classes),
    "resnet20": lambda channels, _size, classes: ResNetCIFAR(depth=20, channels=channels, classes=classes),
    "resnet20x4": lambda channels, _size, classes: ResNetCIFAR(depth=20, width=4, channels=channels, classes=classes),
    "resnet50": lambda _channels, _size, classes: ResNet50(classes=classes),
    "small-cnn": lambda channels, size, classes: SmallCNN(channels=channels, size=size, classes=classes),
}

_LARGEST = 1_000_000
_COLOUR_ONLY = ("efficientnet-lite0", "resnet50")


def architecture_names() -> tuple[str, ...]:
    """The names ``--arch`` accepts."""
    return tuple(sorted(_BUILDERS))


@dataclass(frozen=True)
class Architecture:
    """A network's name and sizes."""

    name: str
    channels: int
    size: int
    classes: int

    def __post_init__(self) -> None:
        if self.name not in _BUILDERS:
            raise InvalidArgument(f"unknown architecture {self.name!r}; the zoo has: {', '.join(architecture_names())}")
        for size in (self.channels, self.size, self.classes):
            if type(size) is not int or not 1 <= size <= _LARGEST:
                raise InvalidArgument(
                    f"channels, size and classes of an architecture must be whole numbers from 1 to {_LARGEST:,}, got {size!r:.40}"
                )
        if self.name in _COLOUR_ONLY and self.channels != 3:
            raise InvalidArgument(
                f"{self.name} takes colour images with 3 channels, got {self.channels}; repeat a grey channel three times"
            )

    def build(self) -> nn.Module:
        """A freshly initialised network."""
        return _BUILDERS[self.name](self.channels, self.size, self.classes)

    def to_json(self) -> str:
        """For a checkpoint's metadata."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Architecture":
        """The inverse of :meth:`to_json`."""
        return cls(**json.loads(text))
