"""Options that several commands take, said once."""

from typing import Any

import typer

from holdfast.measures import DEFAULT_MEASURES

MODEL: Any = typer.Option(
    ...,
    help="A checkpoint (.safetensors, or torch weights); embedded: 'fashion-mnist', 'cifar10-sigma0.25', "
    "'cifar10-sigma0.50'; or 'efficientnet-lite0' (extra imagenet).",
)
DATA: Any = typer.Option(
    ...,
    help="An .npz archive, a folder of IDX files or of CIFAR-10, a folder SPLIT/CLASS/*.jpg, 'fashion-mnist' (embedded), or "
    "'imagenet' (in $IMAGENET_DIR).",
)
PRECISION: Any = typer.Option(
    "float32", help="Of convolutions and matrix products: float32, tf32, bfloat16 or float16."
)
COMPILE: Any = typer.Option(
    None, "--compile/--no-compile", help="Compile the network first; by default if the work per input is worth it."
)
SIGMA: Any = typer.Option(
    None, help="Standard deviation of Gaussian noise, in pixels of [0, 1]; certifies against l2 perturbations."
)
CLAIMED = ",".join(("label", *(measure.name for measure in DEFAULT_MEASURES)))
MEASURED = f"{', '.join(measure.name for measure in DEFAULT_MEASURES)}, or mass-3-5 for the mass of classes 3 and 5"
NOISE: Any = typer.Option(
    None,
    help="Instead of --sigma: a kind of noise and its scale, such as uniform:0.5 (on [-0.5, 0.5]; certifies against l1).",
)
