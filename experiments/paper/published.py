"""Published certified accuracy (500 images, n = 100,000, alpha = 0.001), to compare with.

Recomputed, strictly above the threshold, from the per-image logs that the authors published: Kumar et al. 2020
(github.com/aounon/cdf-smoothing; scores on CIFAR-10, ResNet-110; margins on ImageNet, ResNet-50) and Cohen et al. 2019
(github.com/locuslab/smoothing; labels on CIFAR-10, ResNet-110). Their networks are not the ones certified here, and the
images of ImageNet are others. There is no published log of margins on CIFAR-10, and none of scores on ImageNet.
"""

from experiments.paper.evaluation import NAIVE, PAPER

Published = dict[tuple[float, str, float], tuple[float, ...]]
"""By (sigma, line, threshold), at the radii of ``evaluation.RADII``."""

SCORE: Published = {
    (0.25, PAPER.key, 0.5): (0.708, 0.542, 0.336, 0.0, 0.0, 0.0),
    (0.25, PAPER.key, 0.7): (0.556, 0.414, 0.0, 0.0, 0.0, 0.0),
    (0.25, PAPER.key, 0.9): (0.394, 0.2, 0.0, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.5): (0.708, 0.45, 0.23, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.7): (0.556, 0.336, 0.0, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.9): (0.394, 0.154, 0.0, 0.0, 0.0, 0.0),
    (0.50, PAPER.key, 0.5): (0.534, 0.428, 0.342, 0.244, 0.146, 0.014),
    (0.50, PAPER.key, 0.7): (0.37, 0.28, 0.196, 0.116, 0.0, 0.0),
    (0.50, PAPER.key, 0.9): (0.178, 0.118, 0.056, 0.0, 0.0, 0.0),
    (0.50, NAIVE.key, 0.5): (0.534, 0.374, 0.244, 0.14, 0.07, 0.008),
    (0.50, NAIVE.key, 0.7): (0.37, 0.242, 0.128, 0.07, 0.0, 0.0),
    (0.50, NAIVE.key, 0.9): (0.178, 0.096, 0.038, 0.0, 0.0, 0.0),
}
"""On CIFAR-10."""

IMAGENET_MARGIN: Published = {
    (0.25, PAPER.key, 0.0): (0.672, 0.57, 0.388, 0.0, 0.0, 0.0),
    (0.25, PAPER.key, 0.1): (0.63, 0.538, 0.344, 0.0, 0.0, 0.0),
    (0.25, PAPER.key, 0.3): (0.562, 0.452, 0.228, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.0): (0.672, 0.422, 0.19, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.1): (0.63, 0.4, 0.164, 0.0, 0.0, 0.0),
    (0.25, NAIVE.key, 0.3): (0.562, 0.324, 0.116, 0.0, 0.0, 0.0),
}
"""On ImageNet, at the sigma and the thresholds of our figure."""

LABEL: dict[float, tuple[float, ...]] = {
    0.25: (0.748, 0.6, 0.428, 0.266, 0.0, 0.0),
    0.50: (0.652, 0.546, 0.414, 0.32, 0.234, 0.152),
}
"""On CIFAR-10, by sigma, at the same radii; a radius counts up to and including itself."""
