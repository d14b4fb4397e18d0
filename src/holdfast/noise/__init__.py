"""Noise: what is added to an input, and how little probability an event keeps when the input moves."""

from holdfast.noise.gaussian import Gaussian, as_noise, noise_fields, sigma_of, stored_noise
from holdfast.noise.noise import Noise, noise_named, noise_text
from holdfast.noise.rounded import BYTE, default_step, describe_step, rounded_table
from holdfast.noise.sampled import DRAWING_ERROR, MOST_NUMBERS, plain_noise, sampled_noise
from holdfast.noise.seed import Stage, check_seed, derived_seed, secret_seed
from holdfast.noise.uniform import Uniform

__all__ = [
    "BYTE",
    "DRAWING_ERROR",
    "MOST_NUMBERS",
    "Gaussian",
    "Noise",
    "Stage",
    "Uniform",
    "as_noise",
    "check_seed",
    "default_step",
    "derived_seed",
    "describe_step",
    "noise_fields",
    "noise_named",
    "noise_text",
    "plain_noise",
    "rounded_table",
    "sampled_noise",
    "secret_seed",
    "sigma_of",
    "stored_noise",
]
