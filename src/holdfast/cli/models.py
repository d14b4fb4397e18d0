"""From what a user types after ``--model`` and ``--data`` to a network and inputs, looked at before they are used."""

from pathlib import Path

from holdfast.cli.console import note
from holdfast.errors import CheckpointError
from holdfast.noise import Noise, as_noise
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


def compare_noise(model: str, checkpoint: Checkpoint, noise: Noise, *, use: str) -> None:
    """Point out that a network was trained with other noise than is added now."""
    trained = checkpoint.notes.get("sigma")
    if trained is not None and as_noise(None, float(trained)) != noise:
        note(f"{model} was trained with sigma = {trained}, and is {use} here with {noise.title}")
