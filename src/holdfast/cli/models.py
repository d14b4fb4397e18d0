"""From what a user types after ``--model`` to a network, and a look at the data before it is used."""

from pathlib import Path

from holdfast.errors import CheckpointError
from holdfast.progress import progress_bar
from holdfast.train.loop import architecture_for
from holdfast.zoo.checkpoint import Checkpoint, load_checkpoint
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.pretrained import EMBEDDED_MODELS, PRETRAINED, load_embedded_model, load_pretrained


def open_model(name: str, data: LabelledData | None) -> Checkpoint:
    """A network by name, or a checkpoint by path; the data, if any, gives sizes that a foreign checkpoint lacks."""
    if name in EMBEDDED_MODELS:
        return load_embedded_model(name)
    if name in PRETRAINED:
        return load_pretrained(name)
    if not Path(name).exists():
        known = ", ".join((*EMBEDDED_MODELS, *PRETRAINED))
        raise CheckpointError(f"no checkpoint at {name}; expected a file of weights, or one of: {known}")
    return load_checkpoint(Path(name), default=None if data is None else architecture_for("small-cnn", data))


def check_images(data: LabelledData, progress: bool | None) -> None:
    """Refuse a dataset with an unreadable image before hours are spent on those before it."""
    with progress_bar("reading", len(data), unit="images", show=progress) as on_images:
        data.check(on_images)
