"""Noise: how copies of an input are drawn."""

from holdfast.noise.gaussian import BlockKey, Gaussian, Stage, check_seed

__all__ = ["BlockKey", "Gaussian", "Stage", "check_seed"]
