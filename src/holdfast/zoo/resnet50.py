"""ResNet-50 for ImageNet, with the parameter names that published weights use.

He et al., *Deep Residual Learning for Image Recognition* (CVPR 2016), in the variant everybody's weights are for: the
middle convolution of a block has the stride.
"""

from collections.abc import Iterator

from torch import Tensor, nn

from holdfast.zoo.normalize import Normalize

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
_WIDER = 4


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, and add the input."""

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, _WIDER * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(_WIDER * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != _WIDER * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, _WIDER * width, 1, stride=stride, bias=False), nn.BatchNorm2d(_WIDER * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """The block's features of a batch."""
        inner = self.relu(self.bn1(self.conv1(x)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        out: Tensor = self.relu(self.bn3(self.conv3(inner)) + self.downsample(x))
        return out


class ResNet50(nn.Module):
    """Maps colour images in [0, 1] of any size from 32 (224 is usual) to logits; normalises them itself."""

    def __init__(self, *, classes: int = 1000) -> None:
        super().__init__()
        self.normalize = Normalize(IMAGENET_MEAN, IMAGENET_STD)
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = _stages()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(_WIDER * _STAGES[-1][1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        features = self.maxpool(self.relu(self.bn1(self.conv1(self.normalize(x)))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            features = stage(features)
        logits: Tensor = self.fc(self.avgpool(features).flatten(1))
        return logits


def _stages() -> Iterator[nn.Sequential]:
    channels = 64
    for number, (blocks, width) in enumerate(_STAGES):
        first = Bottleneck(channels, width, stride=1 if number == 0 else 2)
        channels = _WIDER * width
        yield nn.Sequential(first, *(Bottleneck(channels, width, stride=1) for _ in range(blocks - 1)))
