"""Noise: how noisy copies are drawn."""

from holdfast.noise.counter import add_noise
from holdfast.noise.gaussian import BlockKey, Gaussian, Stage, check_seed

__all__ = ["BlockKey", "Gaussian", "Stage", "add_noise", "check_seed"]
