"""``holdfast demo``: the embedded network and images, from noise to a report, in under a minute."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.padding import Padding

from holdfast.cli import options
from holdfast.cli.console import Terminal, note, report_command, say

if TYPE_CHECKING:
    from holdfast.runs.store import Entry


def demo(
    n: int = options.count(10_000, help="Noisy copies per image; 100000 is the paper's setting."),
    n0: int = options.count(100, help="Other noisy copies per image, to choose the class."),
    alpha: float = options.ALPHA,
    max_: int = options.count(100, "--max", help="How many of the 500 embedded images."),
    out: Path | None = typer.Option(None, help="The run's folder; default: runs/demo, or the next free name."),
    seed: str | None = options.SEED,
    device: str = options.DEVICE,
    progress: bool | None = options.PROGRESS,
) -> None:
    """Certify the embedded network on embedded Fashion-MNIST images; nothing is downloaded."""
    from holdfast.certificates.settings import Settings
    from holdfast.cli.certify import execute_or_say
    from holdfast.report.accuracy import Question
    from holdfast.report.axis import radius_axis
    from holdfast.report.figures import examples_figure, save_figure, write_figures
    from holdfast.report.page import write_page
    from holdfast.report.report import PAGE
    from holdfast.report.text import print_report
    from holdfast.report.thumbnails import thumbnails
    from holdfast.runs.execute import Plan
    from holdfast.runs.folder import RunFolder, free_name
    from holdfast.scores.rounding import format_count
    from holdfast.smoothed import SmoothedClassifier
    from holdfast.validation import check_count
    from holdfast.zoo.datasets.embedded import load_fashion_mnist
    from holdfast.zoo.pretrained import EMBEDDED_SIGMA, load_embedded_model

    began = time.monotonic()
    settings = Settings(n, n0, alpha)
    data = load_fashion_mnist()
    chosen = data.every(max(1, len(data) // check_count("--max", max_)), max_)
    if max_ > len(data):
        note(
            f"{len(data)} images are embedded, and all of them are certified: --max {max_:,} asks for more than there are"
        )
    target = free_name(Path("runs"), "demo") if out is None else out
    RunFolder.check_place(target)
    checkpoint = load_embedded_model()
    smoothed = SmoothedClassifier(checkpoint.net, EMBEDDED_SIGMA, inputs="images", device=device)
    console = Terminal()
    say(
        f"Certifying {format_count(len(chosen), 'Fashion-MNIST image')} with a small network, {smoothed.noise.title}: "
        f"{n:,} noisy copies each, alpha = {alpha:g} ..."
    )
    notes = {"model": "fashion-mnist", "weights": dict(checkpoint.notes)}
    plan = Plan(chosen, settings, target, options.seed_number(seed), notes)
    again = "the same command" if out is not None else f"the same command with --out {target}"
    run = execute_or_say(smoothed, plan, progress, resume=again)
    say("")
    print_report([run], Question(radii=(0.0, 0.125, 0.25, 0.375, 0.5, 0.75)), console)

    names = dict(enumerate(data.label_names))
    examples = _three(run.entries)
    say("Three certificates in plain words", style="bold")
    for title, entry in examples.items():
        say(f"  {title} (image {entry.index}, label {names[entry.label]}):")
        console.print(Padding(entry.certificate.describe(names[entry.certificate.predicted]), (0, 0, 0, 4)))
    console.print(
        f"  (Each promise is that certificate's own; these three were picked out of {len(run)} for being extreme.)",
        style="dim",
    )
    positions = {int(index): position for position, index in enumerate(chosen.indices)}
    images = [chosen.image(positions[entry.index]) for entry in examples.values()]
    folder, question = target / "figures", Question()
    axis = radius_axis([run], question)
    run.tabulate(axis)
    written = write_figures([run], question, folder)
    written.append(save_figure(examples_figure(list(examples.values()), images, names), folder / "examples.png"))
    page = write_page([run], question, axis, folder / PAGE, pictures={0: thumbnails(run, chosen)})
    say("\nFigures", style="bold")
    for path in written:
        say(f"  {path}")
    say("\nThe report, for a browser", style="bold")
    say(f"  {page}")
    say("\nWhere to look next", style="bold")
    say(
        f"  {report_command(target)} --threshold 0.8 --radii 0,0.1,0.2   (any threshold or radius; nothing is sampled again)"
    )
    say("  holdfast demo --n 100000                                   (as many copies as the paper takes)")
    say("  holdfast certify --help                                    (your own network and data)")
    say("  README.md, docs/                                           (Python in ten lines; the mathematics)")
    say(f"\nDone in {time.monotonic() - began:.0f} s.")


def _three(entries: "Sequence[Entry]") -> "dict[str, Entry]":
    """The most confident input, the one with the largest gap between label radius and confidence, and the most fragile."""
    from holdfast.certificates.certificate import Certificate

    def confidence(certificate: Certificate, scales: int) -> float:
        first = next(iter(certificate.curves.values()))
        return float(first.lower(scales * certificate.noise.scale))

    def gap(entry: "Entry") -> float:
        certificate: Certificate = entry.certificate
        return certificate.label_radius / certificate.noise.scale - 3 * confidence(certificate, 0)

    ranked = sorted(entries, key=lambda entry: confidence(entry.certificate, 1))
    picked = {"The most confident": ranked[-1]}
    others = [entry for entry in ranked if entry is not ranked[-1]]
    if others:
        picked["A safe label, a modest confidence"] = max(others, key=gap)
        rest = [entry for entry in others if entry not in picked.values()]
        if rest:
            picked["The most fragile"] = min(rest, key=lambda entry: confidence(entry.certificate, 0))
    return picked
