"""``holdfast recheck``: which claims of a run still hold for another network?"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.table import Table

from holdfast.cli import options
from holdfast.cli.console import Terminal, say
from holdfast.errors import ClaimsLost, InvalidArgument

if TYPE_CHECKING:
    from holdfast.runs.rechecked import Recheck

_SHOWN = 10
_FEW = 5_000


def recheck(
    run: Path = typer.Argument(..., help="The folder of a certified run; it is left as it is."),
    model: str = options.MODEL,
    data: str = options.DATA,
    weights: Path | None = options.WEIGHTS,
    radii: str = typer.Option("0,0.25,0.5", help="Radii of the claims, such as 0,0.25,0.5."),
    margin: float = typer.Option(0.01, help="Subtracted from each claim: a loss of confidence that is tolerated."),
    measure: str | None = typer.Option(
        None, help=f"Of what: {options.MEASURED}; default: the first that the run claims."
    ),
    share: float = typer.Option(
        0.05, help="Claims are what this share of the run's copies would have certified; 1: what it certified."
    ),
    max_: int | None = options.count(None, "--max", help="Recheck at most this many inputs of the run."),
    require: float = typer.Option(1.0, help="The share of the claims that must hold for exit code 0."),
    ledger: Path | None = typer.Option(None, help="A file of JSON lines to append the result to."),
    outputs: str = options.OUTPUTS,
    inputs_kind: str = options.INPUTS,
    batch: int | None = options.BATCH,
    split: str | None = typer.Option(None, help="Which part of the dataset; default: the run's."),
    seed: str | None = typer.Option(None, help="For a replay; by default secret. Not the run's own."),
    device: str = options.DEVICE,
    precision: str | None = typer.Option(None, help="As for certify; default: the run's."),
    compiled: bool | None = options.COMPILE,
    progress: bool | None = options.PROGRESS,
) -> None:
    """After a change: which claims of a run still hold for another network, at a fraction of the run's cost?

    A claim that holds is certified, each with the run's own alpha. The others are not confirmed, which does not prove them
    false. Exits with 12 if fewer hold than --require asks for.
    """
    from holdfast.cli.models import check_images, kind_of, open_model
    from holdfast.measures import measure_named
    from holdfast.runs.claims import ClaimsAsked, check_certified, claimed_measure
    from holdfast.runs.ledger import append_line, check_ledger
    from holdfast.runs.recheck import recheck as recheck_run
    from holdfast.runs.rechecked import Outcome
    from holdfast.runs.run import Run
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.open import open_dataset

    asked = ClaimsAsked(options.radii(radii) or (), margin, share, measure and measure_named(measure).name, max_)
    if not 0 <= require <= 1:
        raise InvalidArgument(f"--require must be a share of the claims, from 0 to 1, got {require!r}")
    if ledger is not None:
        check_ledger(ledger)
    known_seed = options.seed_number(seed)
    opened = check_certified(Run.open(run))
    config = opened.config
    whole = open_dataset(data, split=split or str(config.get("split", "test")), size=config.get("size"))
    # Who chose without recording it, as the demo does, spread the inputs over the data.
    count = int(config.get("inputs", len(opened)))
    inputs = whole.every(int(config.get("skip") or max(1, len(whole) // max(1, count))), config.get("max") or count)
    checkpoint = open_model(model, inputs, weights)
    check_images(inputs, progress)
    smoothed = SmoothedClassifier(
        checkpoint.net,
        noise=opened.noise,
        measures=options.further_measures([claimed_measure(opened, asked.measure)]),
        outputs=outputs,
        inputs=kind_of(inputs_kind, inputs),
        device=device,
        batch=batch,
        precision=precision or str(config.get("provenance", {}).get("precision", "float32")),
        compile=compiled,
    )
    found = replace(recheck_run(smoothed, opened, inputs, asked, seed=known_seed, progress=progress), model=model)
    _print(found)
    if ledger is not None:
        append_line(ledger, found.to_dict())
        say(f"a line was added to {ledger}")
    if found.held < require:
        raise ClaimsLost(
            f"{found.count(Outcome.HELD)} of {len(found.claims)} claims of {run} are confirmed for {model}, and a share of "
            f"{require:g} is required; certify the network anew, allow a larger --margin, or keep the old one"
            + (
                f". The run has n = {config['n']:,}, so few that claims are hard to confirm"
                if config["n"] < _FEW
                else ""
            )
        )


def _print(found: "Recheck") -> None:
    """A line for each radius, a few of the claims that do not hold, and the cost."""
    from holdfast.runs.rechecked import Outcome
    from holdfast.scores.rounding import format_number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for title in ("within radius", "claims", *(outcome.value for outcome in Outcome)):
        table.add_column(title, justify="right")
    for radius in found.asked.radii:
        counts = [found.count(outcome, radius) for outcome in Outcome]
        table.add_row(format_number(radius), *map(str, (sum(counts), *counts)))
    Terminal().print(table)
    lost = [each for each in found.claims if each.outcome is not Outcome.HELD]
    for each in lost[:_SHOWN]:
        claim = each.claim
        said = f"at least {format_number(claim.at_least)} within {format_number(claim.radius)}"
        say(f"input {claim.index}, class {claim.predicted} {said}: {each.reason}")
    if len(lost) > _SHOWN:
        say(f"... and {len(lost) - _SHOWN} more")
    say(
        f"{found.count(Outcome.HELD)} of {len(found.claims)} claims hold, with {found.samples:,} noisy copies: "
        f"{found.samples / found.full:.1%} of the {found.full:,} of full certificates"
    )
    if found.abstained or found.trivial:
        say(f"left out: {found.abstained} claims of abstained certificates, {found.trivial} that say nothing")
