"""From what a user types after ``--model`` and ``--data`` to a network and inputs, looked at before they are used."""

from pathlib import Path

from holdfast.cli.console import note
from holdfast.errors import DatasetError, InvalidArgument
from holdfast.noise import Noise, as_noise
from holdfast.progress import progress_bar
from holdfast.train.loop import architecture_for
from holdfast.zoo.checkpoint import Opened
from holdfast.zoo.datasets.labelled import LabelledData
from holdfast.zoo.pretrained import open_checkpoint
from holdfast.zoo.programs import open_program

_WORDS = 5


def open_model(name: str, data: LabelledData | None, weights: Path | None = None) -> Opened:
    """A model by what ``--model`` takes; the data, if any, gives sizes that a foreign checkpoint lacks."""
    found = open_program(name, weights)
    return found or open_checkpoint(name, None if data is None else architecture_for("small-cnn", data))


def kind_of(kind: str, data: LabelledData | None) -> str:
    """What ``--inputs`` means for the data: rows of features are no images."""
    return "any" if data is not None and len(data.shape) == 1 else kind


def check_fit(model: str, checkpoint: Opened, name: str, data: LabelledData) -> None:
    """Refuse labels that a network of the zoo does not know, and point out what else does not fit it."""
    architecture = checkpoint.architecture
    if len(data.shape) == 1 and data.label_names:
        numbered = ", ".join(f"{word} = {number}" for number, word in enumerate(data.label_names[:_WORDS]))
        note(
            f"{name} has words for labels, numbered in their order ({numbered}); {model} must number its classes so, too"
        )
    if architecture is None:
        return
    classes, size = architecture.classes, architecture.size
    if data.labels.max() >= classes:
        raise DatasetError(
            f"{name} has labels up to {data.labels.max()}, but {model} knows the classes 0 to {classes - 1}; "
            f"use the dataset it was trained for"
        )
    if 0 < len(data.label_names) < classes:
        note(
            f"{name} names {len(data.label_names)} classes, numbered here in the order of their names, but {model} knows "
            f"{classes}; if they are some of these, name the folders by the class numbers, or they are counted as wrong"
        )
    if len(data.shape) == 3 and data.shape[-1] != size:
        note(f"{model} was made for images of {size} x {size}, and these have {data.shape[-2]} x {data.shape[-1]}")


def shape_for(model: str, checkpoint: Opened, data: LabelledData | None) -> tuple[int, ...]:
    """Of the inputs that are served."""
    if data is not None:
        return data.shape
    if checkpoint.architecture is None:
        raise InvalidArgument(f"{model} does not say which inputs it takes: give --data with some of them")
    return checkpoint.architecture.channels, checkpoint.architecture.size, checkpoint.architecture.size


def check_images(data: LabelledData, progress: bool | None) -> None:
    """Refuse a dataset with an unreadable image before hours are spent on those before it."""
    if changes := data.changes():
        note(changes)
    with progress_bar("reading", len(data), unit="images", show=progress) as on_images:
        data.check(on_images)


def compare_noise(model: str, checkpoint: Opened, noise: Noise, *, use: str) -> None:
    """Point out that a network was trained with other noise than is added now."""
    trained = checkpoint.notes.get("sigma")
    if trained is not None and as_noise(None, float(trained)) != noise:
        note(f"{model} was trained with sigma = {trained}, and is {use} here with {noise.title}")
