"""``holdfast audit``: attack the inputs of a run, and hold its certificates against what is found."""

from pathlib import Path

import typer

from holdfast.cli import options
from holdfast.cli.console import Terminal, note, report_command, say


def audit(
    run: Path = typer.Argument(..., help="A run's folder; the audit is kept there, in place of an earlier one."),
    model: str = options.MODEL,
    data: str = options.DATA,
    weights: Path | None = options.WEIGHTS,
    radii: str | None = typer.Option(
        None, help="Where to attack, such as 0.25,0.5; default: half to twice the noise's scale."
    ),
    max_: int | None = options.count(None, "--max", help="Attack at most this many inputs of the run; default: all."),
    measure: str | None = typer.Option(
        None, help="Whose average is attacked; default: the run's first. All claimed measures are looked at."
    ),
    n: int = options.count(1_000, help="Fresh noisy copies of each attacked input."),
    error: float = typer.Option(
        0.001, help="How likely it may be that any violation is due to the audit's own sampling."
    ),
    steps: int = options.count(10, help="Gradients for each attack and restart."),
    copies: int = options.count(8, help="Noisy copies for each gradient; 16 times as many without gradients."),
    restarts: int = options.count(2, help="Starts of each attack; the best is kept."),
    clip: bool = typer.Option(True, help="Keep attacked images within [0, 1], or search the whole ball."),
    outputs: str = options.OUTPUTS,
    inputs_kind: str = options.INPUTS,
    batch: int | None = options.BATCH,
    split: str | None = typer.Option(None, help="Which part of the dataset; default: the run's."),
    seed: str | None = typer.Option(None, help="For a replay; by default secret, and recorded with the audit."),
    device: str = options.DEVICE,
    progress: bool | None = options.PROGRESS,
) -> None:
    """Attack the smoothed classifier at a run's inputs, and compare with what is certified there.

    Each attacked input is an upper bound beside the certified lower bound. Exits with 11, and says where, if one is below the
    other beyond sampling error. Needs the network and the data of the run.
    """
    from holdfast.attacks import Attack
    from holdfast.cli.models import check_images, kind_of, open_model
    from holdfast.errors import AuditFailed
    from holdfast.models import as_model
    from holdfast.report.text import audit_table
    from holdfast.report.thumbnails import check_same_inputs
    from holdfast.runs.auditing import AuditPlan, audit_run
    from holdfast.runs.claims import check_certified
    from holdfast.runs.run import Run
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.zoo.datasets.labelled import Images
    from holdfast.zoo.datasets.open import open_dataset

    attack = Attack(steps, copies, restarts, clip)
    plan = AuditPlan(options.radii(radii), max_, measure, n, error, attack, options.seed_number(seed))
    opened = check_certified(Run.open(run))
    config = opened.config
    whole = open_dataset(data, split=split or str(config.get("split", "test")), size=config.get("size"))
    inputs = Images(whole, check_same_inputs(opened, whole))
    checkpoint = open_model(model, whole, weights)
    check_images(whole.every(int(config.get("skip") or 1), config.get("max")), progress)
    precision = str(config.get("provenance", {}).get("precision", "float32"))
    smoothed = SmoothedClassifier(
        as_model(checkpoint.net, outputs=outputs, device=device, precision=precision, compiled=None),
        noise=opened.noise,
        measures=options.further_measures(opened.measures),
        inputs=kind_of(inputs_kind, whole),
        batch=batch,
    )
    found = audit_run(smoothed, opened, inputs, plan, progress=progress)
    Terminal().print(audit_table(found))
    if found.violations:
        for violation in found.violations:
            say(f"violation: {violation}", style="red")
        raise AuditFailed(
            f"{len(found.violations)} certified bounds of {run} are contradicted by attacks; the bounds or the samples they are "
            f"computed from are wrong, or the network is not the one that was certified"
        )
    if not found.notes.gradients:
        note(f"{model} gives no gradients and was attacked by its scores alone, which finds less")
    say(f"no violation; next: {report_command(run)} shows the audit")
