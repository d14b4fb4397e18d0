"""From what a user types after ``--model`` and ``--data`` to a network and inputs, looked at before they are used."""

from holdfast.cli.console import note
from holdfast.noise import Noise, as_noise
from holdfast.progress import progress_bar
from holdfast.train.loop import architecture_for
from holdfast.zoo.checkpoint import Checkpoint
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.pretrained import open_checkpoint


def open_model(name: str, data: LabelledData | None) -> Checkpoint:
    """A network by name, or a checkpoint by path; the data, if any, gives sizes that a foreign checkpoint lacks."""
    return open_checkpoint(name, None if data is None else architecture_for("small-cnn", data))


def check_images(data: LabelledData, progress: bool | None) -> None:
    """Refuse a dataset with an unreadable image before hours are spent on those before it."""
    if changes := data.changes():
        note(changes)
    with progress_bar("reading", len(data), unit="images", show=progress) as on_images:
        data.check(on_images)


def compare_noise(model: str, checkpoint: Checkpoint, noise: Noise, *, use: str) -> None:
    """Point out that a network was trained with other noise than is added now."""
    trained = checkpoint.notes.get("sigma")
    if trained is not None and as_noise(None, float(trained)) != noise:
        note(f"{model} was trained with sigma = {trained}, and is {use} here with {noise.title}")
