"""``holdfast certify``: a dataset into a run on disk."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from holdfast.bounds.named import band_names
from holdfast.cli.options import CLAIMED, COMPILE, DATA, MEASURED, MODEL, NOISE, PRECISION, SIGMA
from holdfast.cli.parsing import choice, measures_named, noise_from, seed_number, words
from holdfast.errors import DatasetError
from holdfast.measures import DEFAULT_MEASURES
from holdfast.noise import as_noise
from holdfast.validation import check_count

if TYPE_CHECKING:
    from holdfast.runs.certified import CertifiedRun
    from holdfast.runs.execute import Plan
    from holdfast.smoothed import SmoothedClassifier


def certify(
    model: str = MODEL,
    data: str = DATA,
    sigma: float | None = SIGMA,
    noise: str | None = NOISE,
    out: Path = typer.Option(..., help="The run's folder: a new one, or that of the same command, killed: it goes on."),
    n: int = typer.Option(100_000, help="Noisy copies per input for estimation."),
    n0: int = typer.Option(100, help="Other noisy copies per input, to choose the class."),
    alpha: float = typer.Option(0.001, help="Total failure probability of one certificate."),
    claims: str = typer.Option(CLAIMED, help=f"What alpha is spent on, in equal shares: label, {MEASURED}."),
    sides: str = typer.Option("lower", help="'lower', or 'both' for upper bounds too."),
    band: str = typer.Option(band_names()[0], help=f"The distribution's band: {', '.join(band_names())}."),
    thresholds: int | None = typer.Option(
        None, help="Use this many equal-count thresholds, as the paper does; default: every order statistic."
    ),
    outputs: str = typer.Option("logits", help="What the model returns: 'logits' or 'probabilities'."),
    inputs_kind: str = typer.Option(
        "images", "--inputs", help="'images' refuses values far outside [0, 1]; 'any' takes other units."
    ),
    batch: int | None = typer.Option(None, help="Noisy copies per forward pass."),
    skip: int = typer.Option(1, help="Certify every k-th input."),
    max_: int | None = typer.Option(None, "--max", help="Certify at most this many inputs."),
    split: str = typer.Option("test", help="Which part of the dataset."),
    seed: str | None = typer.Option(None, help="For a replay; by default secret, and recorded in run.json."),
    device: str = typer.Option("auto", help="'auto', 'cpu' or 'cuda'."),
    precision: str = PRECISION,
    compiled: bool | None = COMPILE,
    engine: str = typer.Option("local", help="Who runs the copies: 'local', or 'ray' (a cluster)."),
    workers: int | None = typer.Option(None, help="With ray: how many workers; default: as many as there is room for."),
    cores_per_worker: int | None = typer.Option(None, help="With ray: CPU cores of each worker; default: 1."),
    address: str | None = typer.Option(
        None, help="With ray: a running cluster ('auto', 'host:6379'); default: start one on this machine."
    ),
    progress: bool | None = typer.Option(None, help="Show a progress bar; by default if stderr is a terminal."),
) -> None:
    """Certify the confidence of a model on a dataset, and keep everything needed to ask again.

    Exits with 0 when every input is certified (or abstained on). An interrupted or killed run goes on with the same command.
    """
    from holdfast.bounds import CDF
    from holdfast.bounds.named import band_named
    from holdfast.certificates.settings import Settings
    from holdfast.cli.engines import engine_named
    from holdfast.cli.models import check_images, open_model
    from holdfast.report.accuracy import Question
    from holdfast.report.text import print_report
    from holdfast.runs.calibration_checks import COUNT
    from holdfast.runs.execute import Plan
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.open import open_dataset

    runner = engine_named(engine, workers=workers, cores_per_worker=cores_per_worker, address=address)
    added = noise_from(sigma, noise)
    measures = measures_named(words(claims))
    settings = Settings(
        n,
        n0,
        alpha,
        words(claims),
        sides,
        CDF(band=band_named(choice(band, "--band", band_names())), thresholds=thresholds),
    ).resolved([measure.info for measure in (*DEFAULT_MEASURES, *measures)], added)
    known_seed = seed_number(seed)
    check_count("--skip", skip)
    if max_ is not None:
        check_count("--max", max_)
    whole = open_dataset(data, split=split)
    inputs = whole.every(skip, max_)
    checkpoint = open_model(model, inputs)
    check_images(inputs, progress)
    classes = checkpoint.architecture.classes
    if inputs.labels.max() >= classes:
        raise DatasetError(
            f"{data} has labels up to {inputs.labels.max()}, but {model} knows the classes 0 to {classes - 1}; "
            f"use the dataset it was trained for"
        )
    errors = Console(stderr=True, highlight=False)
    if 0 < len(inputs.label_names) < classes:
        errors.print(
            f"note: {data} names {len(inputs.label_names)} classes, numbered here in the order of their names, but {model} knows "
            f"{classes}; if they are some of these, name the folders by the class numbers, or they are counted as wrong",
            style="yellow",
        )
    trained = checkpoint.notes.get("sigma")
    if trained is not None and as_noise(None, float(trained)) != added:
        errors.print(
            f"note: {model} was trained with sigma = {trained}, and is certified here with {added.title}",
            style="yellow",
        )
    if len(inputs.shape) == 3 and inputs.shape[-1] != checkpoint.architecture.size:
        errors.print(
            f"note: {model} was made for images of {checkpoint.architecture.size} x {checkpoint.architecture.size}, "
            f"and these have {inputs.shape[-2]} x {inputs.shape[-1]}",
            style="yellow",
        )
    smoothed = SmoothedClassifier(
        checkpoint.net,
        noise=added,
        measures=measures,
        outputs=outputs,
        inputs=inputs_kind,
        device=device,
        batch=batch,
        precision=precision,
        compile=compiled,
        engine=runner,
    )
    notes: dict[str, Any] = {
        "model": model,
        "split": split,
        "skip": skip,
        "max": max_,
        "weights": dict(checkpoint.notes),
    }
    if len(inputs) < len(whole) and str(len(whole)) == checkpoint.notes.get(COUNT):
        notes["chosen_from"] = whole.digest()  # some of what it was trained on, perhaps: triage must be able to tell
    with runner:
        run = execute_or_say(smoothed, Plan(inputs, settings, out, known_seed, notes), progress)
    console = Console(highlight=False)
    print_report([run], Question(), console)
    console.print(f"{len(run)} certificates in {out}; next: holdfast report {shlex.quote(str(out))}", soft_wrap=True)


def execute_or_say(smoothed: "SmoothedClassifier", plan: "Plan", progress: bool | None) -> "CertifiedRun":
    """Certify a plan; if interrupted, say where the finished certificates are."""
    from holdfast.runs.execute import execute

    errors = Console(stderr=True, highlight=False)
    try:
        return execute(smoothed, plan, progress=progress, say=lambda text: errors.print(text, soft_wrap=True))
    except KeyboardInterrupt:
        if plan.out.exists():
            said = (
                f"stopped; the certificates finished so far are in {plan.out} ('holdfast report {plan.out}' reads them, "
                f"and the same command goes on from there)"
            )
            errors.print(said, style="yellow", soft_wrap=True)
        raise
