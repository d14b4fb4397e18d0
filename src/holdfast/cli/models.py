"""From what a user types after ``--model`` to a network."""

from pathlib import Path

from holdfast.train.loop import architecture_for
from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint
from holdfast.zoo.datasets.labelled import LabelledInputs
from holdfast.zoo.embedded import EMBEDDED_MODEL, load_embedded_model


def open_model(name: str, data: LabelledInputs) -> Checkpoint:
    """The embedded network by name, or a checkpoint by path; the data gives sizes that a foreign checkpoint lacks."""
    if name == EMBEDDED_MODEL:
        return load_embedded_model()
    return load_checkpoint(Path(name), default=architecture_for("small-cnn", data))
