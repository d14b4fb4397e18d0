"""The table: each objective's certified accuracy, certified Brier score, natural accuracy and seconds of training.

python -m experiments.training.table --runs runs/a runs/b ... --out results

Runs are named OBJECTIVE-sigmaSIGMA and hold ``softmax.npz``. Writes ``table.md`` and ``table.json``.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from experiments.paper.softmax import NAME, PlainSoftmax
from experiments.training.brier import CertifiedBrier, certified_brier
from experiments.training.reproduce import ORDER
from holdfast.runs.certified import CertifiedRun

ALPHA = 0.001
RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
THRESHOLDS = (0.5, 0.7, 0.9)
BRIER_RADII = (0.0, 0.25, 0.5)
OURS = ("certified", "certified-normal", "certified-normal-temperature")
RIVALS = ("plain", "consistency", "consistency-half", "plain-temperature", "consistency-temperature")
RESAMPLES, LEVEL = 10_000, 0.95


@dataclass(frozen=True, eq=False)
class Row:
    """One network, certified: what the table says about it."""

    objective: str
    run: CertifiedRun

    @classmethod
    def open(cls, path: Path) -> "Row":
        """A run's folder, named OBJECTIVE-sigmaSIGMA."""
        run = hf.Run.open(path)
        if not isinstance(run, CertifiedRun):
            raise hf.RunError(f"{path} is an imported log; the table needs a run of 'holdfast certify'")
        name, mark, _ = path.name.rpartition("-sigma")
        if not mark:
            raise hf.RunError(f"expected a run named OBJECTIVE-sigmaSIGMA, such as plain-sigma0.25, got {path.name}")
        return cls(name, run)

    @property
    def sigma(self) -> float:
        """Of the noise."""
        return float(self.run.config["sigma"])

    def note(self, name: str) -> str:
        """What the checkpoint says of its training; a dash if nothing."""
        return str((self.run.config.get("weights") or {}).get(name, "-"))

    @property
    def natural(self) -> float:
        """Share of inputs that the network itself gets right, without noise."""
        found = PlainSoftmax.read(self.run.path / NAME)
        answers = self.run.answers
        by_index = dict(zip(found.indices.tolist(), found.probabilities.argmax(axis=1).tolist(), strict=True))
        return float(np.mean([by_index[int(i)] == y for i, y in zip(answers.index, answers.label, strict=True)]))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Whether the class of the certificate is the label."""
        return np.asarray(self.run.answers.predicted == self.run.answers.label)

    @cached_property
    def accuracy(self) -> dict[str, list[float]]:
        """Certified accuracy at every radius, each claim alone at alpha."""
        alone = [entry.certificate.recompute(alpha=ALPHA, claims=("label",)) for entry in self.run.entries]
        radius = np.array([each.label_radius if each.label.certified else -1.0 for each in alone])
        lower = np.array(
            [
                entry.certificate.recompute(alpha=ALPHA, claims=("score",)).score.lower(np.array(RADII))
                for entry in self.run.entries
            ]
        )
        found = {
            f"score > {threshold}": (self.right[:, None] & (lower > threshold)).mean(axis=0).tolist()
            for threshold in THRESHOLDS
        }
        return {**found, "label": (self.right[:, None] & (radius[:, None] >= np.array(RADII))).mean(axis=0).tolist()}

    @cached_property
    def brier(self) -> tuple[CertifiedBrier, ...]:
        """At every radius of :data:`BRIER_RADII`."""
        return tuple(certified_brier(self.run, radius, ALPHA) for radius in BRIER_RADII)


@dataclass(frozen=True)
class Difference:
    """How much lower our score is, on average over the same inputs, with a paired bootstrap interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> "Difference":
        """Percentiles of the mean difference over resampled inputs."""
        difference = ours - theirs
        rng = np.random.default_rng(0)
        count = len(difference)
        means = [difference[rng.integers(0, count, count)].mean() for _ in range(RESAMPLES)]
        tail = (1 - LEVEL) / 2
        return cls(float(difference.mean()), *(float(q) for q in np.quantile(means, [tail, 1 - tail])))

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def write_table(rows: Sequence[Row], folder: Path) -> list[Path]:
    """``table.md`` and the same numbers in ``table.json``."""
    _check_same_inputs(rows)
    folder.mkdir(parents=True, exist_ok=True)
    text, plain = folder / "table.md", folder / "table.json"
    text.write_text("\n".join(_lines(rows)) + "\n", encoding="utf-8")
    plain.write_text(json.dumps([_values(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return [text, plain]


def _place(row: Row) -> tuple[float, int]:
    """By sigma, then in the order of :mod:`experiments.training.reproduce`; others last."""
    return row.sigma, ORDER.index(row.objective) if row.objective in ORDER else len(ORDER)


def _check_same_inputs(rows: Sequence[Row]) -> None:
    """Differences are taken input by input."""
    for row in rows:
        if not np.array_equal(row.run.answers.index, rows[0].run.answers.index):
            raise hf.RunError(
                f"all runs must be of the same inputs, {row.run.path} is not of those of {rows[0].run.path}"
            )


def _values(row: Row) -> dict[str, object]:
    return {
        "objective": row.objective,
        "sigma": row.sigma,
        "training": row.note("command"),
        "temperature": row.note("temperature"),
        "seconds": row.note("seconds"),
        "natural_accuracy": row.natural,
        "smoothed_accuracy": float(row.right.mean()),
        "radii": RADII,
        "certified_accuracy": row.accuracy,
        "brier_radii": BRIER_RADII,
        "certified_brier_classes": [float(each.classes.mean()) for each in row.brier],
        "certified_brier_answer": [float(each.answer.mean()) for each in row.brier],
    }


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    copies = rows[0].run.config["n"]
    yield "# Objectives of training, certified"
    yield ""
    yield (
        f"Written by `python -m experiments.training.table`. {len(rows[0].run)} held-out images, n = {copies:,}, each claim alone at "
        f"alpha = {ALPHA}; README.md says what the columns mean. Shares are cut, Brier scores rounded up, after three digits."
    )
    for sigma, group in itertools.groupby(rows, key=lambda row: row.sigma):
        yield from _section(sigma, list(group))


def _section(sigma: float, rows: Sequence[Row]) -> Iterator[str]:
    at = [f"R = {radius:g}" for radius in BRIER_RADII]
    yield from ("", f"## sigma = {sigma:g}", "")
    yield _line(
        "objective",
        "natural",
        "smoothed",
        "T",
        "seconds",
        *(f"Brier, {each}" for each in at),
        *(f"answer, {each}" for each in at),
    )
    yield "|---" * (5 + 2 * len(at)) + "|"
    for row in rows:
        temperature = row.note("temperature")
        yield _line(
            row.objective,
            _share(row.natural),
            _share(float(row.right.mean())),
            temperature if temperature == "-" else f"{float(temperature):.3g}",
            row.note("seconds"),
            *(_up(float(each.classes.mean())) for each in row.brier),
            *(_up(float(each.answer.mean())) for each in row.brier),
        )
    yield ""
    yield _line("certified", "objective", *(f"R = {radius:g}" for radius in RADII))
    yield "|---" * (2 + len(RADII)) + "|"
    for claim in rows[0].accuracy:
        for row in rows:
            yield _line(claim, row.objective, *map(_share, row.accuracy[claim]))
    named = {row.objective: row for row in rows}
    rivals = [named[each] for each in RIVALS if each in named]
    ours = [named[each] for each in OURS if each in named]
    if not ours or not rivals:
        return
    yield ""
    yield f"Our objective minus another, certified Brier score (paired bootstrap over images, {LEVEL:.0%}); below zero is better:"
    yield ""
    yield _line("score", "ours", "minus", *at)
    yield "|---" * (3 + len(at)) + "|"
    for kind, own, rival in itertools.product(("Brier", "answer"), ours, rivals):
        pairs = zip(own.brier, rival.brier, strict=True)
        found = [
            Difference.of(a.classes, b.classes) if kind == "Brier" else Difference.of(a.answer, b.answer)
            for a, b in pairs
        ]
        yield _line(kind, own.objective, rival.objective, *map(str, found))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _share(value: float) -> str:
    return f"{math.floor(1000 * value + 1e-9) / 1000:.3f}"


def _up(value: float) -> str:
    return f"{math.ceil(1000 * value - 1e-9) / 1000:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Write the table of objectives from stored runs.")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="folders of certified runs")
    parser.add_argument("--out", type=Path, required=True, help="folder for table.md and table.json")
    asked = parser.parse_args(arguments)
    try:
        written = write_table(sorted(map(Row.open, asked.runs), key=_place), asked.out)
    except hf.HoldfastError as error:
        print(f"table: {error}", file=sys.stderr)
        return error.exit_code
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
