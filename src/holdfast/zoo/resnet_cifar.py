"""Residual networks for 32 x 32 images, ResNet-110 among them: the networks of the paper's CIFAR-10 experiments."""

from torch import Tensor, nn

from holdfast.errors import InvalidArgument
from holdfast.zoo.normalize import Normalize

_CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
_CIFAR10_STD = (0.2023, 0.1994, 0.2010)


class ResNetCIFAR(nn.Module):
    """Three stages of ``(depth - 2) / 6`` basic blocks with 16, 32 and 64 channels times ``width``, after a normalisation layer.

    Source:
        He et al. 2016, section 4.2. A stage's first block changes size by a strided 1 x 1 convolution.
    """

    def __init__(self, *, depth: int = 110, width: int = 1, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise InvalidArgument(f"a ResNet for small images has depth 6k + 2, such as 20 or 110, got {depth}")
        blocks = (depth - 2) // 6
        narrow, middle, wide = (width * each for each in (16, 32, 64))
        colour = channels == 3
        self.normalize = Normalize(
            _CIFAR10_MEAN if colour else [0.5] * channels, _CIFAR10_STD if colour else [0.5] * channels
        )
        self.conv1 = nn.Conv2d(channels, narrow, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _stage(narrow, narrow, blocks, stride=1)
        self.layer2 = _stage(narrow, middle, blocks, stride=2)
        self.layer3 = _stage(middle, wide, blocks, stride=2)
        self.fc = nn.Linear(wide, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch (n, channels, height, width)."""
        x = self.relu(self.bn1(self.conv1(self.normalize(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits


class _Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        same = stride == 1 and narrow == wide
        self.downsample = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(narrow, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide))
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        inside = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(inside + self.downsample(x))
        return out


def _stage(narrow: int, wide: int, blocks: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(_Block(narrow, wide, stride), *(_Block(wide, wide, 1) for _ in range(blocks - 1)))
