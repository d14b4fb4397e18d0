"""Noise: what is added to an input, and how little probability an event keeps when the input moves."""

from holdfast.noise.gaussian import Gaussian, as_noise, noise_fields, sigma_of, stored_noise
from holdfast.noise.noise import Noise, noise_named
from holdfast.noise.seed import Stage, check_seed, secret_seed
from holdfast.noise.uniform import Uniform

__all__ = [
    "Gaussian",
    "Noise",
    "Stage",
    "Uniform",
    "as_noise",
    "check_seed",
    "noise_fields",
    "noise_named",
    "secret_seed",
    "sigma_of",
    "stored_noise",
]
