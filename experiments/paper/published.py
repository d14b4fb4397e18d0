"""Published certified accuracy on CIFAR-10 (500 test images, n = 100,000, alpha = 0.001), to compare with.

Recomputed, strictly above the threshold, from the per-image logs that the authors published: Kumar et al. 2020
(github.com/aounon/cdf-smoothing; scores, ResNet-110) and Cohen et al. 2019 (github.com/locuslab/smoothing; labels,
ResNet-110). Their networks are not the ones certified here. There is no published CIFAR-10 log of margins.
"""

from experiments.paper.evaluation import NAIVE, PAPER

SCORE: dict[tuple[float, str, float], tuple[float, ...]] = {
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
"""By (sigma, line, threshold), at the radii of ``evaluation.RADII``."""

LABEL: dict[float, tuple[float, ...]] = {
    0.25: (0.748, 0.6, 0.428, 0.266, 0.0, 0.0),
    0.50: (0.652, 0.546, 0.414, 0.32, 0.234, 0.152),
}
"""By sigma, at the same radii; a radius counts up to and including itself."""
