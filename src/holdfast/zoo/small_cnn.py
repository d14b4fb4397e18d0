"""A small convolutional network for small grey or colour images: quick enough to certify on a laptop."""

from torch import Tensor, nn

from holdfast.zoo.normalize import Normalize


class SmallCNN(nn.Module):
    """Three strided convolutions and a linear layer; maps (n, channels, size, size) to logits (n, classes)."""

    def __init__(self, *, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        widths = (16, 32, 64)
        self.normalize = Normalize([0.5] * channels, [0.5] * channels)
        self.features = nn.Sequential(
            nn.Conv2d(channels, widths[0], 5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(widths[0], widths[1], 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(widths[1], widths[2], 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        )
        side = -(-size // 8)
        self.head = nn.Linear(widths[2] * side * side, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        logits: Tensor = self.head(self.features(self.normalize(x)))
        return logits
