"""A stored run in the paper's setting: each claim alone at alpha = 0.001, and how many inputs each bound certifies."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from experiments.paper.baseline import best_possible, limit
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.plot import DATA_TITLES
from holdfast.runs.store import Entry
from holdfast.scores.rounding import format_number

Floats = NDArray[np.float64]

ALPHA = 0.001
RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
THRESHOLDS = {"score": (0.5, 0.7, 0.9), "margin": (0.0, 0.3, 0.6)}
"""From one half (or zero) upwards, a certified score (or margin) also says that the class is the prediction."""

TERMS = ("--objective", "--copies", "--consistency", "--sharpness", "--radius", "--steps", "--score", "--temperature")
"""Options of ``holdfast train`` that go beyond noise: Cohen et al. and Kumar et al. trained without such terms."""

PLAIN = "plain training"
"""How the paper's networks were trained: noise on the images, and nothing else."""

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Line:
    """One way to bound the average score at every radius, as a line of a figure."""

    key: str
    title: str
    certified: bool
    lower: Callable[[hf.ScoreHistogram, Floats], Floats]


def _line(key: str, title: str, method: hf.Method) -> Line:
    def lower(scores: hf.ScoreHistogram, radii: Floats) -> Floats:
        return hf.bound(scores, alpha=ALPHA, method=method).lower(radii)

    return Line(key, title, method.guaranteed, lower)


OURS = _line("holdfast", "Holdfast's default (CDF, Berk-Jones)", hf.CDF(hf.BerkJones()))
PAPER = _line("cdf_dkw", "the paper's CDF bound (DKW)", hf.CDF(hf.DKW()))
NAIVE = _line("naive_hoeffding", "the paper's naive bound (Hoeffding)", hf.Naive(hf.Hoeffding()))
LIMIT = Line("infinite_samples", "infinitely many samples (not certified)", certified=False, lower=limit)
BASELINE = Line("best_baseline", "best possible naive bound (not certified)", certified=False, lower=best_possible)
LINES = (OURS, PAPER, NAIVE, BASELINE, LIMIT)


@dataclass(frozen=True)
class Answer:
    """What one input came to: the paper's two notions of confidence side by side."""

    index: int
    label: int
    predicted: int
    label_radius: float
    score: float

    @property
    def right(self) -> bool:
        """Whether the predicted class is the label."""
        return self.predicted == self.label


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A run of certificates, bounded again as the paper does: one claim, all of alpha = 0.001.

    The run's own certificates share alpha among their claims; the stored counts answer for any alpha.
    """

    run: CertifiedRun

    @classmethod
    def open(cls, path: str | Path) -> "Evaluation":
        """A run's folder; it must hold finished certificates with score and margin."""
        run = hf.Run.open(path)
        if not isinstance(run, CertifiedRun):
            raise hf.RunError(
                f"{path} is an imported log; the figures need a run of 'holdfast certify', with its counts"
            )
        if len(run) == 0:
            raise hf.RunError(f"{path} holds no finished certificates; certify some inputs first")
        return cls(run)

    def __len__(self) -> int:
        return len(self.run.entries)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self.entries[0].certificate.sigma

    @property
    def n(self) -> int:
        """Noisy copies an input."""
        return self.entries[0].certificate.n

    @property
    def precision(self) -> str:
        """Of the network that is certified."""
        return self.entries[0].certificate.provenance.precision

    @property
    def name(self) -> str:
        """Of the run's folder; a network and a sigma each."""
        return self.run.path.name

    @cached_property
    def plain(self) -> bool:
        """Whether the network was trained as the paper's were: noise on the images, and no further term."""
        return self.training == PLAIN

    @cached_property
    def training(self) -> str | None:
        """What the network was trained with, by the notes of its weights; None if they do not say."""
        notes: Mapping[str, str] = self.run.config.get("weights") or {}
        if "command" not in notes and "objective" not in notes:
            return None
        terms = [
            value if option == "--objective" else f"{option[2:]} {value}"
            for option, value in pairwise(shlex.split(notes.get("command", "")))
            if option in TERMS and value != "plain"
        ]
        objective = notes.get("objective", "Plain()")
        return ", ".join(terms) or (PLAIN if objective.startswith("Plain(") else objective)

    @property
    def network(self) -> str:
        """For a reader of figures and tables: how it was trained, or the model's name if that is not known."""
        if self.training is None:
            return Path(str(self.run.config.get("model") or self.name)).name.removesuffix(".safetensors")
        return self.training if self.plain else f"training with {self.training}"

    @property
    def title(self) -> str:
        """The network and the noise."""
        return f"{self.network}, sigma = {format_number(self.sigma)}"

    @property
    def data(self) -> str:
        """The data's name, as it is written in words."""
        recorded = str(self.run.config.get("data") or "")
        return DATA_TITLES.get(recorded, recorded)

    @property
    def heading(self) -> str:
        """Data, network and noise, over a panel of a figure."""
        return f"{self.data}, {self.network}, σ = {format_number(self.sigma)}"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All inputs, in the order of their index."""
        return self.run.entries

    @property
    def radii(self) -> Floats:
        """Where figures are drawn: every twentieth of sigma up to four, and the radii of the tables."""
        steps = np.arange(81) * self.sigma / 20
        return np.unique(np.round(np.concatenate([steps, RADII]), 9))

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the label; whether it is certified, the threshold decides."""
        return np.array([answer.right for answer in self.answers])

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Label radius and certified average score at the input, each alone at alpha = 0.001."""
        scores = self.lower("score", OURS, np.array([0.0]))[:, 0]
        return tuple(
            Answer(entry.index, entry.label, entry.certificate.predicted, label_radius(entry), float(score))
            for entry, score in zip(self.entries, scores, strict=True)
        )

    def lower(self, measure: str, line: Line, radii: Floats) -> Floats:
        """Lower bounds, shape (inputs, radii)."""
        return np.array([line.lower(histogram(entry, measure), radii) for entry in self.entries])

    def counts(self, measure: str, line: Line, radii: Floats) -> NDArray[np.int64]:
        """How many inputs are right and certified strictly above each threshold; shape (thresholds, radii)."""
        lower = self.lower(measure, line, radii)
        above = lower[None] > np.array(THRESHOLDS[measure])[:, None, None]
        return np.asarray((self.right[None, :, None] & above).sum(axis=1), dtype=np.int64)

    def label_counts(self, radii: Floats) -> NDArray[np.int64]:
        """How many inputs are right with a certified label radius of at least each radius, as Cohen et al. count."""
        certified = [
            entry.certificate.recompute(alpha=ALPHA, claims=("label",)).label.certified for entry in self.entries
        ]
        reached = np.array([answer.label_radius for answer in self.answers])[:, None] >= radii
        return np.asarray(((self.right & certified)[:, None] & reached).sum(axis=0), dtype=np.int64)

    def name_of(self, label: int) -> str:
        """A class's name, or "class" and its number if the run has no names."""
        names: Sequence[str] = self.run.config.get("label_names") or ()
        return names[label] if label < len(names) else f"class {label}"


def in_order(runs: Iterable[Evaluation]) -> list[Evaluation]:
    """Like for like first: networks that were trained as the paper's, then others; by sigma within each."""
    return sorted(runs, key=lambda run: (not run.plain, run.sigma, run.name))


def histogram(entry: Entry, measure: str) -> hf.ScoreHistogram:
    """The stored counts of a measure."""
    evidence = entry.certificate.evidence
    return evidence[measure]


def label_radius(entry: Entry) -> float:
    """Cohen et al.'s radius with all of alpha; zero where the label is not certified."""
    return entry.certificate.recompute(alpha=ALPHA, claims=("label",)).label_radius
