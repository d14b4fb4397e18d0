"""How to train: everything the weights depend on besides the data and the architecture."""

from dataclasses import dataclass, field

import torch

from holdfast.errors import InvalidArgument
from holdfast.train.objectives import Objective, Plain
from holdfast.validation import check_count, check_number, check_sigma

OPTIMIZERS = ("adamw", "sgd")
TRAINING_PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Recipe:
    """Training with Gaussian noise.

    Attributes:
        sigma: standard deviation of the noise, in pixels of [0, 1].
        shift: images are moved by up to this many pixels in each direction, with zeros moving in.
        objective: what is minimised, and over how many noisy copies of each image.
        precision: ``bfloat16`` runs convolutions and matrix products in it; weights are float32 all the while.
    """

    sigma: float
    epochs: int = 20
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    optimizer: str = "adamw"
    shift: int = 0
    objective: Objective = field(default_factory=Plain)
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_sigma(self.sigma)
        check_count("epochs", self.epochs)
        check_count("batch", self.batch, at_least=2)
        check_count("seed", self.seed, at_least=0)
        check_count("shift", self.shift, at_least=0)
        check_number("weight decay", self.weight_decay, at_least=0)
        if not 0 < self.learning_rate < 1:
            raise InvalidArgument(f"learning rate must be in (0, 1), got {self.learning_rate}")
        if self.optimizer not in OPTIMIZERS:
            raise InvalidArgument(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.precision not in TRAINING_PRECISIONS:
            raise InvalidArgument(
                f"precision of training must be one of {', '.join(TRAINING_PRECISIONS)}, got {self.precision!r}"
            )


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data came to, on noisy copies.

    Attributes:
        held_out: the accuracy on images that are not trained on, if there are any.
        seconds: since the training began, without those of a part that was interrupted and done again.
    """

    number: int
    loss: float
    accuracy: float
    held_out: float | None = None
    seconds: float = field(default=0.0, compare=False)
