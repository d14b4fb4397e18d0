"""``holdfast verify``: whether a run is as it was written, and its counts are what its network gives."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli import options
from holdfast.cli.console import say
from holdfast.errors import InvalidArgument, NotVerified

if TYPE_CHECKING:
    from holdfast.runs.certified import CertifiedRun
    from holdfast.runs.verification import Check
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.labelled import LabelledData

_RATE = 1e-3


def verify(
    run: Path = typer.Argument(..., help="A run's folder."),
    key: Path | None = typer.Option(
        None, help="A public Ed25519 key (PEM): the run must be signed with its private half."
    ),
    sign: Path | None = options.SIGN,
    model: str | None = typer.Option(
        None, help="The run's model, as for certify: compared by fingerprint and spot check."
    ),
    weights: Path | None = options.WEIGHTS,
    data: str | None = typer.Option(None, help="The run's data, as for certify: compared by fingerprints."),
    resample: int | None = options.count(
        None, help="Draw fresh noise for so many random inputs, and compare the counts; needs --model and --data."
    ),
    error_rate: float = typer.Option(
        _RATE, help="With --resample: the probability with which true counts may be flagged."
    ),
    outputs: str = options.OUTPUTS,
    inputs_kind: str = options.INPUTS,
    batch: int | None = options.BATCH,
    device: str = options.DEVICE,
    format_: str = typer.Option("text", "--format", help="'text' or 'json' (on stdout)."),
    progress: bool | None = options.PROGRESS,
) -> None:
    """Check a run: digests of its files, all that follows from its counts, and its network, data and signature if they are given.

    Exits with 0 if nothing is wrong, and with 10 otherwise; every problem is listed. Without --model and --data it needs no torch.
    """
    from holdfast.runs.folder import SIGNATURE, RunFolder
    from holdfast.runs.signature import signer
    from holdfast.runs.verify import verify as verify_run

    options.choice(format_, "--format", ("text", "json"))
    if resample is not None and (model is None or data is None):
        raise InvalidArgument("--resample draws noise for the run's inputs: give its --model and its --data, too")
    if model is not None or data is not None:
        import_module("holdfast.runs.resample")  # needs torch: refused now, not after the run was read
    signing = None if sign is None else signer(sign)
    found = verify_run(run, key=key)
    if signing is not None and found.ok:
        RunFolder.open(run).signature(signing)  # refused before anything is sampled
    if (model is not None or data is not None) and found.ok:  # what is wrong by itself need not be compared
        opened = _certified(run)
        inputs = None if data is None else _data(opened, data)
        smoothed = (
            None if model is None else _network(opened, model, weights, inputs, outputs, inputs_kind, batch, device)
        )
        found = found.also(*_compared(opened, smoothed, inputs, resample, error_rate, progress))
    if format_ == "json":
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        say(str(found))
    if not found.ok:
        raise NotVerified(
            f"{run} is not verified: {len(found.problems)} wrong, as listed; restore it from a copy, or certify again"
        )
    if signing is not None:
        RunFolder.open(run).sign(signing)
        say(f"signed: {run / SIGNATURE}")


def _certified(path: Path) -> "CertifiedRun":
    from holdfast.runs.certified import CertifiedRun
    from holdfast.runs.run import Run

    found = Run.open(path)
    if not isinstance(found, CertifiedRun):
        raise InvalidArgument(f"{path} is an imported log, which names no network; leave out --model and --data")
    return found


def _data(run: "CertifiedRun", name: str) -> "LabelledData":
    """The inputs that the run chose of its dataset."""
    from holdfast.zoo.datasets.open import open_dataset

    config = run.config
    whole = open_dataset(name, split=config.get("split", "test"), size=config.get("size"))
    return whole.every(config.get("skip", 1), config.get("max"))


def _network(
    run: "CertifiedRun",
    model: str,
    weights: Path | None,
    data: "LabelledData | None",
    outputs: str,
    kind: str,
    batch: int | None,
    device: str,
) -> "SmoothedClassifier":
    """The model with the run's noise, measures and precision."""
    from holdfast.cli.models import kind_of, open_model
    from holdfast.models import as_model
    from holdfast.smoothed import SmoothedClassifier

    net = as_model(
        open_model(model, data, weights).net,
        outputs=outputs,
        device=device,
        precision=run.config["provenance"]["precision"],
        compiled=run.config.get("compile"),
    )
    measures = options.further_measures(info.name for info in run.counted)
    return SmoothedClassifier(net, noise=run.noise, measures=measures, inputs=kind_of(kind, data), batch=batch)


def _compared(
    run: "CertifiedRun",
    smoothed: "SmoothedClassifier | None",
    data: "LabelledData | None",
    resampled: int | None,
    error_rate: float,
    progress: bool | None,
) -> "Iterator[Check]":
    """Data and network by their fingerprints; fresh noise only for the run's own data."""
    from holdfast.runs.resample import data_check, network_check, resample

    same = None if data is None else data_check(run, data)
    if same is not None:
        yield same
    if smoothed is not None:
        yield network_check(run, smoothed)
        if resampled is not None and data is not None and same is not None and not same.problems:
            yield resample(run, smoothed, data, inputs=resampled, error_rate=error_rate, progress=progress)
