"""``holdfast serve``: a page and an HTTP service in one process."""

import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

import typer

from holdfast.cli import options
from holdfast.cli.console import note, say
from holdfast.cli.drift import read_triage
from holdfast.errors import InvalidArgument, RunError

_SAMPLES = 20
_LOG_BYTES = 2**23
_LOG_FILES = 4
_LEVELS = ("debug", "info", "warning", "error")


def serve(
    model: str = typer.Option(
        "fashion-mnist",
        help="As for certify; default: embedded.",
    ),
    weights: Path | None = options.WEIGHTS,
    sigma: float | None = typer.Option(
        None, help="Standard deviation of Gaussian noise; default: what the network was trained with."
    ),
    noise: str | None = options.NOISE,
    measures: str = typer.Option(
        "", help="Measures to count beside the usual ones, such as mass-3-5 for the mass of classes 3 and 5."
    ),
    data: str | None = typer.Option(
        None, help="A dataset whose images the page offers, and whose names of classes it uses."
    ),
    split: str = options.SPLIT,
    size: str | None = options.SIZE,
    triage: Path | None = typer.Option(
        None, help="What 'holdfast triage --out' wrote for this network: POST /v1/triage then accepts or hands over."
    ),
    drift_every: int = typer.Option(
        500, help="With --triage: so many of its inputs at a time are tested for drift; the result is in /v1/model."
    ),
    host: str = typer.Option("127.0.0.1", help="Where to listen; anything but this machine itself needs an API key."),
    port: int = typer.Option(8023, help="0 takes a free one."),
    api_key: str | None = typer.Option(
        None, envvar="HOLDFAST_API_KEY", help="What callers must send; better in the environment than typed here."
    ),
    keys: Path | None = typer.Option(
        None, help='TOML with a key for each caller, read at each request: [NAME], key = "...", perhaps fresh = true.'
    ),
    secret: Path | None = typer.Option(
        None,
        help="A file with the secret that seeds follow from, made if it is not there; default: another one at each start.",
    ),
    access_log: Path | None = typer.Option(
        None, help="A file for a line of JSON for each answer, and why it was refused if it was."
    ),
    log_level: str = typer.Option(
        "error", help="Of what is said on stderr: debug, info (each answer), warning or error."
    ),
    open_: bool = typer.Option(True, "--open/--no-open", help="Open the page in a browser."),
    queue: int = options.count(128, help="Requests that wait or are answered at once; more are refused with 429."),
    max_copies: int = options.count(1_000_000, help="Noisy copies of one request."),
    max_seconds: float = typer.Option(300.0, help="Time for one request."),
    max_upload: int | None = options.count(None, help="Bytes of a body; default: 2 MiB, more for larger inputs."),
    replays: bool = typer.Option(True, "--replays/--no-replays", help="Whether callers may give a seed."),
    step: float | None = options.STEP,
    outputs: str = options.OUTPUTS,
    batch: int | None = options.BATCH,
    device: str = options.DEVICE,
    precision: str | None = options.PRECISION,
    compiled: bool | None = options.COMPILE,
) -> None:
    """Serve one model: a page to look at certificates, and HTTP for programs. Stays on this machine unless told otherwise."""
    from holdfast.cli.models import compare_noise, kind_of, open_model, shape_for
    from holdfast.service.callers import Keys
    from holdfast.service.limits import Limits, upload_for
    from holdfast.service.server import check_address
    from holdfast.service.server import serve as run
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.validation import check_copies, check_count, check_number
    from holdfast.zoo.datasets.embedded import load_fashion_mnist
    from holdfast.zoo.datasets.labelled import LabelledData
    from holdfast.zoo.datasets.open import open_dataset
    from holdfast.zoo.pretrained import EMBEDDED_MODEL

    check_address(host, port, Keys(api_key, keys))
    check_count("--drift-every", drift_every)
    check_count("--queue", queue)
    check_copies("--max-copies", max_copies)
    check_number("--max-seconds", max_seconds, at_least=0.001)
    if max_upload is not None:
        check_count("--max-upload", max_upload)
    try:
        further = options.further_measures(options.words(measures))
    except InvalidArgument as error:
        raise InvalidArgument(f"--measures: {error}") from error
    _start_logs(options.choice(log_level, "--log-level", _LEVELS), access_log)
    inputs: LabelledData | None = None
    if data is not None:
        inputs = open_dataset(data, split=split, size=options.image_size(size))
    elif model == EMBEDDED_MODEL:
        inputs = load_fashion_mnist()
    checkpoint = open_model(model, inputs, weights)
    if sigma is None and noise is None:
        if "sigma" not in checkpoint.notes:
            raise InvalidArgument(
                f"{model} does not say with which noise it was trained: give --sigma, such as --sigma 0.25, or --noise"
            )
        sigma = float(checkpoint.notes["sigma"])
    added = options.noise_from(sigma, noise)
    shape = shape_for(model, checkpoint, inputs)
    smoothed = SmoothedClassifier(
        checkpoint.net,
        noise=added,
        measures=further,
        step=step,
        outputs=outputs,
        inputs=kind_of("images", inputs),
        device=device,
        batch=batch,
        precision=precision,
        compile=bool(compiled),
    )
    rule = None if triage is None else read_triage(triage, "--triage")
    samples = None if inputs is None else inputs.every(max(1, len(inputs) // _SAMPLES), _SAMPLES)
    compare_noise(model, checkpoint, added, use="served")
    if samples is not None and (changes := samples.changes()):
        note(changes)
    run(
        smoothed,
        shape,
        name=model,
        labels=() if inputs is None else inputs.label_names,
        samples=samples,
        triage=rule,
        drift_every=drift_every,
        limits=Limits(queue, max_copies, max_seconds, max_upload or upload_for(shape), replays=replays),
        host=host,
        port=port,
        key=api_key,
        keys=keys,
        secret=secret,
        browser=open_,
        say=say,
    )


def _start_logs(level: str, access_log: Path | None) -> None:
    """What is said on stderr, and answers in a file, of which old parts are deleted."""
    from holdfast.service.security import ACCESS_LOG

    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if access_log is None:
        return
    try:
        if access_log.is_file() and access_log.stat().st_size and not _is_access_log(access_log):
            raise RunError(f"{access_log} is there already and is no access log; choose another file")
        file = RotatingFileHandler(access_log, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="ascii")
    except OSError as error:
        raise RunError(f"cannot write the access log {access_log}: {error.strerror}; choose another file") from error
    file.setFormatter(logging.Formatter("%(message)s"))
    ACCESS_LOG.addHandler(file)
    ACCESS_LOG.setLevel(logging.INFO)
    ACCESS_LOG.propagate = level in ("debug", "info")


def _is_access_log(path: Path) -> bool:
    """Whether its first line is one that an answer left."""
    with path.open("rb") as file:
        try:
            return {"time", "caller", "seconds"} <= set(json.loads(file.readline(_LOG_BYTES)))
        except (RecursionError, TypeError, ValueError):
            return False
