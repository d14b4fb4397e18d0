"""EfficientNet-Lite0 for ImageNet: small enough to certify with many noisy copies, and 75% accurate.

EfficientNet-B0 (Tan and Le, ICML 2019) as its authors changed it for phones: no squeeze-and-excitation, and ReLU6 for
swish. The weights were trained in TensorFlow, which pads a strided convolution more on the right and below than on
the left and above; so does this.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from holdfast.zoo.normalize import Normalize


@dataclass(frozen=True)
class _Stage:
    """Blocks of the same width; the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


_STEM, _TOP = 32, 1280
_STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)


class SameConv2d(nn.Module):
    """A convolution whose output has ceil(size / stride) pixels a side, padded the way TensorFlow does."""

    def __init__(self, channels: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels // groups, kernel, kernel))
        nn.init.kaiming_normal_(self.weight, mode="fan_out")
        self._kernel, self._stride, self._groups = kernel, stride, groups

    def forward(self, x: Tensor) -> Tensor:
        """The convolved batch."""
        below, right = (self._missing(size) for size in x.shape[-2:])
        if below == right and below % 2 == 0:
            padding = below // 2
        else:
            x = functional.pad(x, (right // 2, right - right // 2, below // 2, below - below // 2))
            padding = 0
        return functional.conv2d(x, self.weight, stride=self._stride, padding=padding, groups=self._groups)

    def _missing(self, size: int) -> int:
        """How many pixels the last window would stick out."""
        windows = -(-size // self._stride)
        return max((windows - 1) * self._stride + self._kernel - size, 0)


class MBConv(nn.Module):
    """An inverted bottleneck: widen, convolve each channel by itself, narrow; added to the input where shapes agree."""

    def __init__(self, channels: int, stage: _Stage, *, stride: int) -> None:
        super().__init__()
        inside = channels * stage.expansion
        self.expand = _convolution(channels, inside, 1) if stage.expansion > 1 else nn.Identity()
        self.depthwise = _convolution(inside, inside, stage.kernel, stride=stride, groups=inside)
        self.project = nn.Sequential(SameConv2d(inside, stage.width, 1), _norm(stage.width))
        self._adds = stride == 1 and channels == stage.width

    def forward(self, x: Tensor) -> Tensor:
        """The block's features of a batch."""
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + out if self._adds else out


class EfficientNetLite0(nn.Module):
    """Maps colour images in [0, 1] (224 x 224 is what the weights are for) to logits; normalises them itself."""

    def __init__(self, *, classes: int = 1000) -> None:
        super().__init__()
        self.normalize = Normalize([127 / 255] * 3, [128 / 255] * 3)
        self.stem = _convolution(3, _STEM, 3, stride=2)
        self.blocks = nn.Sequential()
        channels = _STEM
        for stage in _STAGES:
            for number in range(stage.blocks):
                self.blocks.append(MBConv(channels, stage, stride=stage.stride if number == 0 else 1))
                channels = stage.width
        self.top = _convolution(channels, _TOP, 1)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(_TOP, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        features = self.top(self.blocks(self.stem(self.normalize(x)))).mean((2, 3))
        logits: Tensor = self.fc(self.dropout(features))
        return logits


def _convolution(channels: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        SameConv2d(channels, width, kernel, stride=stride, groups=groups), _norm(width), nn.ReLU6(inplace=True)
    )


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
