"""``holdfast decide``: one question about many inputs, with as few noisy copies as it takes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli import options
from holdfast.cli.console import say

if TYPE_CHECKING:
    from holdfast.sequential import Decision
    from holdfast.zoo.datasets.labelled import LabelledData


def decide(
    model: str = options.MODEL,
    data: str = options.DATA,
    weights: Path | None = options.WEIGHTS,
    sigma: float | None = options.SIGMA,
    noise: str | None = options.NOISE,
    at_least: float = typer.Option(..., help="The confidence asked for."),
    radius: float = typer.Option(..., help="The radius within which it must hold."),
    measure: str = typer.Option(options.MEASURES[0], help=f"Of what: {options.MEASURED}."),
    n: int = options.count(100_000, help="Give up after this many noisy copies of an input."),
    n0: int = options.N0,
    alpha: float = typer.Option(0.001, help="Probability of certifying a false statement, for each input."),
    step: float | None = options.STEP,
    outputs: str = options.OUTPUTS,
    batch: int | None = options.BATCH,
    skip: int = options.count(1, help="Decide every k-th input."),
    max_: int | None = options.count(None, "--max", help="Decide at most this many inputs."),
    split: str = options.SPLIT,
    size: str | None = options.SIZE,
    seed: str | None = typer.Option(None, help="For a replay; by default secret."),
    device: str = options.DEVICE,
    precision: str | None = options.PRECISION,
    compiled: bool | None = options.COMPILE,
    progress: bool | None = options.PROGRESS,
) -> None:
    """Is the confidence at least so much within the radius? Stops as soon as it knows, and says what it cost."""
    import numpy as np

    from holdfast.cli.models import check_images, kind_of, open_model
    from holdfast.measures import measure_named
    from holdfast.noise import check_seed
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.labelled import Images, LabelledInputs
    from holdfast.zoo.datasets.open import open_dataset

    added, asked = options.noise_from(sigma, noise), measure_named(measure).name
    options.check_selection(skip, max_)
    known_seed = check_seed(options.seed_number(seed))
    inputs = open_dataset(data, split=split, size=options.image_size(size)).every(skip, max_)
    check_images(inputs, progress)
    smoothed = SmoothedClassifier(
        open_model(model, inputs, weights).net,
        noise=added,
        measures=options.further_measures([asked]),
        step=step,
        outputs=outputs,
        inputs=kind_of("images", inputs),
        device=device,
        batch=batch,
        precision=precision,
        compile=compiled,
    )
    began = time.monotonic()
    found: dict[int, Decision] = {}
    try:
        smoothed.decide_many(
            # What is in memory anyway goes as an array, all of which is looked at before anything is sampled.
            inputs.batch(np.arange(len(inputs))) if isinstance(inputs, LabelledInputs) else Images(inputs),
            at_least=at_least,
            radius=radius,
            measure=asked,
            alpha=alpha,
            n_max=n,
            n0=n0,
            seed=known_seed,
            indices=inputs.indices.tolist(),
            progress=progress,
            on_decision=found.__setitem__,
        )
    finally:
        # Whoever interrupts keeps what was decided: each decision stands by itself.
        if found:
            full = n * len(found)
            samples = sum(each.samples for each in found.values())
            say(
                f"{_said(found, inputs)} with {samples:,} noisy copies: {samples / full:.1%} of the {full:,} of full runs, "
                f"in {time.monotonic() - began:.0f} s; seed {known_seed:#x}"
            )


def _named(inputs: "LabelledData", predicted: int | None) -> str:
    """A class by its number, and by its name if it has one."""
    names = inputs.label_names
    return str(predicted) if predicted is None or predicted >= len(names) else f"{predicted} ({names[predicted]})"


def _said(found: "dict[int, Decision]", inputs: "LabelledData") -> str:
    """Print every decision in the inputs' order; returns how many are certified, in words."""
    certified = right = 0
    for position, decision in sorted(found.items()):
        index, label = inputs.indices[position], inputs.labels[position]
        certified += decision.certified
        right += decision.certified and decision.predicted == label
        verdict = "which is its label" if decision.predicted == label else f"its label is {label}"
        say(f"input {index}, class {_named(inputs, decision.predicted)}, {verdict}: {decision.reason}")
    rest = "" if len(found) == len(inputs) else f" ({len(inputs) - len(found)} more were not decided)"
    return f"\n{certified} of {len(found)} certified{rest}, {right} of them for the right class,"
