"""``holdfast certify``: a dataset into a run on disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli import options
from holdfast.cli.console import Terminal, note, report_command, say
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.runs.certified import CertifiedRun
    from holdfast.runs.execute import Plan
    from holdfast.sampling import Engine
    from holdfast.smoothed import SmoothedClassifier

_FASTER = (
    "--precision bfloat16 would take about half the time (a ResNet-110, compiled, on an H200: 0.49 s an image instead of 0.91); "
    "certify at the precision you deploy"
)

BANDS = ("berk-jones", "dkw")
"""The names of bands, the default first: a help that is asked for imports no SciPy."""


def certify(
    model: str = options.MODEL,
    data: str = options.DATA,
    weights: Path | None = options.WEIGHTS,
    sigma: float | None = options.SIGMA,
    noise: str | None = options.NOISE,
    out: Path = typer.Option(..., help="The run's folder: a new one, or that of the same command, killed: it goes on."),
    n: int = options.count(100_000, help="Noisy copies per input for estimation."),
    n0: int = options.N0,
    alpha: float = options.ALPHA,
    claims: str = typer.Option(
        options.CLAIMED, help=f"What alpha is spent on, in equal shares: label, {options.MEASURED}."
    ),
    sides: str = typer.Option("lower", help="'lower', or 'both' for upper bounds too."),
    band: str = typer.Option(BANDS[0], help=f"The distribution's band: {', '.join(BANDS)}."),
    thresholds: int | None = options.count(
        None, help="Use this many equal-count thresholds, as the paper does; default: every order statistic."
    ),
    step: float | None = options.STEP,
    outputs: str = options.OUTPUTS,
    inputs_kind: str = options.INPUTS,
    batch: int | None = options.BATCH,
    skip: int = options.count(1, help="Certify every k-th input."),
    max_: int | None = options.count(None, "--max", help="Certify at most this many inputs."),
    split: str = options.SPLIT,
    size: str | None = options.SIZE,
    seed: str | None = options.SEED,
    device: str = options.DEVICE,
    precision: str | None = options.PRECISION,
    compiled: bool | None = options.COMPILE,
    engine: str = typer.Option("local", help="Who runs the copies: 'local', or 'ray' (a cluster)."),
    workers: int | None = options.count(
        None, help="With ray: how many workers; default: as many as there is room for."
    ),
    cores_per_worker: int | None = options.count(None, help="With ray: CPU cores of each worker; default: 1."),
    address: str | None = typer.Option(
        None, help="With ray: a running cluster ('auto', 'host:6379'); default: start one on this machine."
    ),
    sign: Path | None = options.SIGN,
    progress: bool | None = options.PROGRESS,
) -> None:
    """Certify the confidence of a model on a dataset, and keep everything needed to ask again.

    Exits with 0 when every input is certified (or abstained on). An interrupted or killed run goes on with the same command, which
    leaves a complete one as it is.
    """
    from holdfast.bounds import CDF
    from holdfast.bounds.named import band_named
    from holdfast.certificates.settings import Settings
    from holdfast.cli.models import check_fit, check_images, compare_noise, kind_of, open_model
    from holdfast.measures import DEFAULT_MEASURES
    from holdfast.report.accuracy import Question
    from holdfast.report.text import print_report
    from holdfast.runs.calibration_checks import COUNT
    from holdfast.runs.execute import Plan
    from holdfast.runs.folder import RunFolder
    from holdfast.runs.signature import signer
    from holdfast.scores.rounding import format_count
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.open import open_dataset

    RunFolder.check_place(out)
    signing = None if sign is None else signer(sign)
    runner = _engine(engine, workers, cores_per_worker, address)
    added = options.noise_from(sigma, noise)
    claimed = options.claims_named(claims)
    measures = options.further_measures(claimed)
    method = CDF(band=band_named(options.choice(band, "--band", BANDS)), thresholds=thresholds)
    asked = Settings(n, n0, alpha, claimed, sides, method)
    settings = asked.resolved([measure.info for measure in (*DEFAULT_MEASURES, *measures)], added)
    known_seed = options.seed_number(seed)
    options.check_selection(skip, max_)
    whole = open_dataset(data, split=split, size=options.image_size(size))
    inputs = whole.every(skip, max_)
    checkpoint = open_model(model, inputs, weights)
    check_images(inputs, progress)
    check_fit(model, checkpoint, data, inputs)
    compare_noise(model, checkpoint, added, use="certified")
    smoothed = SmoothedClassifier(
        checkpoint.net,
        noise=added,
        measures=measures,
        step=step,
        outputs=outputs,
        inputs=kind_of(inputs_kind, inputs),
        device=device,
        batch=batch,
        precision=precision,
        compile=compiled,
        engine=runner,
    )
    if precision is None and smoothed.model.device.type == "cuda":
        note(_FASTER)
    known = dict(checkpoint.notes)
    notes: dict[str, Any] = {"model": model, "split": split, "skip": skip, "max": max_, "weights": known}
    if size is not None:
        notes["size"] = options.image_size(size)
    if len(inputs) < len(whole) and str(len(whole)) == known.get(COUNT):
        notes["chosen_from"] = whole.digest()  # some of what it was trained on, perhaps: triage must be able to tell
    with runner:
        run = execute_or_say(smoothed, Plan(inputs, settings, out, known_seed, notes, signing), progress)
    print_report([run], Question(), Terminal())
    say(f"{format_count(len(run), 'certificate')} in {out}; next: {report_command(out)}")


def _engine(engine: str, workers: int | None, cores_per_worker: int | None, address: str | None) -> "Engine":
    """Who runs the noisy copies: this machine, or a Ray cluster with its options, which mean nothing locally."""
    from holdfast.sampling import Local
    from holdfast.sampling.ray import RayCluster

    if options.choice(engine, "--engine", ("local", "ray")) == "ray":
        return RayCluster(
            workers=workers, cores_per_worker=1 if cores_per_worker is None else cores_per_worker, address=address
        )
    for option, value in {"--workers": workers, "--cores-per-worker": cores_per_worker, "--address": address}.items():
        if value is not None:
            raise InvalidArgument(f"{option} is about a cluster; add --engine ray, or leave it out")
    return Local()


def execute_or_say(
    smoothed: "SmoothedClassifier", plan: "Plan", progress: bool | None, *, resume: str = "the same command"
) -> "CertifiedRun":
    """Certify a plan; if interrupted, say where the finished certificates are, and which command resumes."""
    from holdfast.runs.execute import execute

    errors = Terminal(stderr=True)
    try:
        return execute(smoothed, plan, progress=progress, say=lambda text: errors.print(text, soft_wrap=True))
    except KeyboardInterrupt:
        if plan.out.exists():
            note(
                f"stopped; the certificates finished so far are in {plan.out} ('{report_command(plan.out)}' reads them, "
                f"and {resume} goes on from there)"
            )
        raise
