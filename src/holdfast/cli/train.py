"""``holdfast train``: a network trained on noisy copies, as safetensors."""

import hashlib
import json
import math
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli import options
from holdfast.cli.console import note, say
from holdfast.errors import DatasetError, InvalidArgument
from holdfast.progress import format_time, progress_bar

_WATCHED = 1000
"""Images that are not trained on, for each epoch's accuracy on them."""
_COLDEST = 0.001

if TYPE_CHECKING:
    from holdfast.train.recipe import Epoch, Recipe
    from holdfast.train.state import StateFile
    from holdfast.zoo.datasets.labelled import LabelledData


def train(
    data: str = typer.Option(
        ...,
        help="An .npz archive with train_images and train_labels, a folder of IDX files or of CIFAR-10, or a folder SPLIT/CLASS/*.jpg.",
    ),
    sigma: float = typer.Option(..., help="Standard deviation of the noise to train (and later certify) with."),
    out: Path = typer.Option(
        ...,
        help="The .safetensors file to write; it must not exist yet, unless the same command wrote it. Until it does, OUT.training is "
        "what the same command resumes from.",
    ),
    arch: str = typer.Option(
        "small-cnn",
        help="The architecture: small-cnn, resnet20, resnet20x4 (four times as wide), resnet110, resnet50 or efficientnet-lite0 (the last "
        "two for colour).",
    ),
    split: str = typer.Option("train", help="Which part of the dataset."),
    size: str | None = options.SIZE,
    epochs: int = options.count(30, help="Passes over the data."),
    batch: int = options.count(256, help="Images per step."),
    learning_rate: float = typer.Option(0.002, help="Peak learning rate of the one-cycle schedule."),
    weight_decay: float = typer.Option(0.0001, help="Pull of the weights towards zero."),
    optimizer: str = typer.Option("adamw", help="'adamw', or 'sgd' with Nesterov momentum."),
    shift: int = options.count(0, help="Move images by up to this many pixels."),
    objective: str | None = typer.Option(
        None,
        help="'plain', 'consistency' (Jeong & Shin), 'smoothadv' (Salman et al.) or 'certified' (the bound itself); by default plain, "
        "with the terms that --consistency and --sharpness add.",
    ),
    copies: int | None = options.count(
        None, help="Noisy copies of each image in a step; default: 1 (consistency and smoothadv: 2, certified: 4)."
    ),
    consistency: float | None = typer.Option(
        None, help="Weight of the disagreement between an image's copies; default: 0 (--objective consistency: 20)."
    ),
    sharpness: float | None = typer.Option(
        None,
        help="Weight of the entropy of their average: more decided scores; default: 0 (--objective consistency: 0.5).",
    ),
    radius: float | None = typer.Option(
        None,
        help="How far smoothadv attacks images, and where certified takes the bound; default: 0.25 (certified: 0.5).",
    ),
    steps: int | None = options.count(None, help="Of smoothadv's attack; default: 2."),
    score: str | None = typer.Option(None, help="Of the certified confidence: 'log' (default) or 'brier'."),
    law: str | None = typer.Option(
        None,
        help="Of a class's log-odds in certified's bound: 'empirical' (default), that of the copies; or 'normal', for larger radii.",
    ),
    temperature: str | None = typer.Option(
        None,
        help="Divide the logits by this number; 'auto' holds out a twentieth of the images and takes the number with the least "
        "certified Brier score there, at a radius of sigma.",
    ),
    precision: str = typer.Option("float32", help="Of convolutions and matrix products: float32 or bfloat16."),
    compiled: bool = typer.Option(
        False, "--compile/--no-compile", help="Compile the network's blocks first: some seconds that pay off on a GPU."
    ),
    seed: int = typer.Option(0, help="Of the initial weights, the order and the noise."),
    device: str = options.DEVICE,
    progress: bool | None = options.PROGRESS,
) -> None:
    """Train a network with Gaussian noise added to its images, before its normalisation. The same command resumes."""
    import numpy as np
    import torch

    from holdfast.cli.objectives import objective_named
    from holdfast.models import resolve_device
    from holdfast.runs.calibration_checks import COUNT, IMAGES
    from holdfast.runs.resume import data_fingerprints
    from holdfast.train.loop import architecture_for
    from holdfast.train.loop import train as run_training
    from holdfast.train.recipe import Recipe
    from holdfast.train.state import StateFile, locked_training, state_path
    from holdfast.train.temperature import apply_temperature, choose_temperature, hold_out
    from holdfast.version import installed_version
    from holdfast.zoo.architecture import architecture_names
    from holdfast.zoo.checkpoint import check_target, load_checkpoint, save_checkpoint
    from holdfast.zoo.datasets.open import open_dataset

    options.choice(arch, "--arch", architecture_names())
    if out.suffix != ".safetensors":
        raise InvalidArgument(f"--out must end in .safetensors, got {out}")
    if not out.exists():
        check_target(out)
    recipe = Recipe(
        sigma,
        epochs,
        batch,
        learning_rate,
        weight_decay,
        optimizer=optimizer,
        shift=shift,
        objective=objective_named(
            objective,
            {
                "copies": copies,
                "consistency": consistency,
                "sharpness": sharpness,
                "radius": radius,
                "steps": steps,
                "score": score,
                "law": law,
            },
        ),
        precision=precision,
        seed=seed,
    )
    divisor = None if temperature in (None, "auto") else _temperature(temperature)
    where = resolve_device(device)
    inputs = open_dataset(data, split=split, size=options.image_size(size))
    if changes := _some(inputs).changes():
        note(changes)
    architecture = architecture_for(arch, inputs)
    held = hold_out(inputs, seed) if temperature == "auto" else None
    trained_on = inputs if held is None else inputs.at(held.train)
    fingerprints = data_fingerprints(inputs)
    training = {
        **_settings(recipe),
        "architecture": arch,
        "temperature": temperature or "not chosen",
        "compile": "on" if compiled else "off",
        "device": where.type,
        "SHA-256 of the images": fingerprints["images"][:16],
        "SHA-256 of the labels": fingerprints["labels"][:16],
        "torch": torch.__version__,
        "Holdfast": installed_version(),
    }
    digest = hashlib.sha256(
        json.dumps({name: str(value) for name, value in training.items()}, sort_keys=True).encode()
    ).hexdigest()
    with locked_training(out):
        if out.exists() and load_checkpoint(out).notes.get("training") == digest:
            say(f"complete: {out} holds these weights already")
            return
        check_target(out)
        file = StateFile(state_path(out), training)
        if file.epochs:
            say(f"going on after epoch {len(file.epochs)} of {epochs}")
        watched = (
            _test_split(data, options.image_size(size), inputs, fingerprints["images"])
            if held is None
            else _some(inputs.at(held.out))
        )
        todo = (epochs - len(file.epochs)) * len(trained_on)
        with _saying_what_resumes(file, epochs):
            with progress_bar("training", todo, unit="images", show=progress) as on_step:
                net = run_training(
                    architecture,
                    trained_on,
                    recipe,
                    device=where,
                    compiled=compiled,
                    held_out=watched,
                    file=file,
                    on_step=on_step,
                    on_epoch=lambda epoch: say(_line(epoch, epochs)),
                )
            begun = time.perf_counter()
            if held is not None:
                divisor = choose_temperature(net, inputs.at(held.out), sigma=sigma, seed=seed, device=where)
                say(f"temperature {divisor:.4g}, chosen on {len(held.out):,} images that were held out")
            seconds = file.epochs[-1].seconds + time.perf_counter() - begun
        if divisor is not None:
            apply_temperature(net, divisor, torch.from_numpy(inputs.batch(np.arange(min(8, len(inputs))))).to(where))
        notes = {
            "command": shlex.join(["holdfast", *sys.argv[1:]]),
            "data": inputs.name,
            IMAGES: fingerprints["images"],
            COUNT: str(len(inputs)),
            "training": digest,
            "sigma": f"{sigma:g}",
            "epochs": str(epochs),
            "seed": str(seed),
            "objective": repr(recipe.objective),
            **({} if divisor is None else {"temperature": repr(divisor)}),
            "seconds": f"{seconds:.1f}",
            "train_accuracy": f"{file.epochs[-1].accuracy:.4f}",
            "torch": torch.__version__,
            "holdfast": installed_version(),
        }
        save_checkpoint(out, net, architecture, notes)
        file.remove()
    next_ = f"holdfast certify --model {shlex.quote(str(out))} --data ... --sigma {sigma:g} --out runs/..."
    say(f"weights in {out}; next: {next_}")


def _settings(recipe: "Recipe") -> dict[str, str]:
    """A recipe in words, by name."""
    return {each.name.replace("_", " "): str(getattr(recipe, each.name)) for each in fields(recipe)}


def _test_split(data: str, size: int | str | None, trained_on: "LabelledData", digest: str) -> "LabelledData | None":
    """Some of the dataset's own, if it has one that is not trained on and can be read."""
    from holdfast.zoo.datasets.open import open_dataset

    try:
        found = open_dataset(data, split="test", size=size)
        # A file without splits is the same for every --split.
        if found.shape != trained_on.shape or (len(found) == len(trained_on) and found.digest() == digest):
            return None
        some = _some(found)
        some.check()
    except DatasetError:
        return None
    return some


def _some(data: "LabelledData") -> "LabelledData":
    """At most 1,000 images, from all of the data: classes may be in order."""
    import numpy as np

    return data.at(np.arange(0, len(data), math.ceil(len(data) / _WATCHED)))


def _line(epoch: "Epoch", epochs: int) -> str:
    left = epoch.seconds / epoch.number * (epochs - epoch.number)
    return (
        f"epoch {epoch.number:3d} of {epochs}: loss {epoch.loss:.4f}, accuracy on noisy copies {epoch.accuracy:.4f}"
        + (f", held out {epoch.held_out:.4f}" if epoch.held_out is not None else "")
        + (f"; {format_time(left)} left" if epoch.number < epochs else "")
    )


@contextmanager
def _saying_what_resumes(file: "StateFile", epochs: int) -> Iterator[None]:
    """If training is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        finished = len(file.epochs)
        where = f"goes on after epoch {finished} of {epochs}" if finished else "begins anew: no epoch was finished yet"
        note(f"stopped; the same command {where}")
        raise


def _temperature(text: str) -> float:
    """A number that float32 weights can be divided by."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not _COLDEST <= number <= 1 / _COLDEST:
        raise InvalidArgument(
            f"--temperature takes a number from {_COLDEST} to {1 / _COLDEST:g}, or 'auto', got {text!r}"
        )
    return number
