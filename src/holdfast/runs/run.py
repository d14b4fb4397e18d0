"""A run read back from disk: certificates, or an imported log of somebody else's."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from holdfast.certificates.certificate import Certificate
from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidArgument, RunError
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, noise_fields
from holdfast.plotting import PALETTE, house_style
from holdfast.progress import OnDone, ignore
from holdfast.runs.audit import Audit
from holdfast.runs.config_checks import check_config
from holdfast.runs.folder import COMPLETE, RunFolder, recorded_measures, recorded_noise
from holdfast.runs.manifest import SPOT_CHECK
from holdfast.validation import check_radii

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.runs.verification import Verification

_POINTS = 201


@dataclass(frozen=True, eq=False)
class Answers:
    """Index, label and answer of each input, in the run's order; ``predicted`` is -1 where a log names no class."""

    index: NDArray[np.int64]
    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    abstained: NDArray[np.bool_]


class Run(ABC):
    """What a report needs of a run: which inputs are predicted correctly, and each bound at each radius."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.path = folder, folder.path
        self.config: dict[str, Any] = folder.config()
        self._on_inputs: OnDone = ignore
        self._place: dict[float, int] = {}
        self._table: dict[tuple[str, str], NDArray[np.float64]] = {}

    @staticmethod
    def open(path: str | Path) -> "Run":
        """Open ``runs/NAME``; needs no torch and no model."""
        from holdfast.runs.certified import CertifiedRun
        from holdfast.runs.imported import ImportedRun

        folder = RunFolder.open(Path(path))
        kind = check_config(folder).get("kind")
        if kind == "certified":
            return CertifiedRun(folder)
        if kind == "imported":
            return ImportedRun(folder)
        raise RunError(f"{path} is a run of unknown kind {kind!r}; expected certified or imported")

    @property
    def noise(self) -> Noise | None:
        """The noise that was added; None where a log does not say."""
        return recorded_noise(self.config)

    @property
    def sigma(self) -> float | None:
        """Standard deviation of Gaussian noise; None for any other, and where a log does not say."""
        return None if self.noise is None else noise_fields(self.noise).get("sigma")

    @property
    def norm(self) -> str | None:
        """In which radii are measured; None where a log does not say."""
        return None if self.noise is None else self.noise.norm

    @cached_property
    def counted(self) -> tuple[MeasureInfo, ...]:
        """The measures that were counted on every noisy copy, claimed or not."""
        return recorded_measures(self.config)

    def measure(self, name: str) -> MeasureInfo:
        """What is known of a measure of this run: its title, support and usual thresholds."""
        for info in self.counted:
            if info.name == name:
                return info
        raise InvalidArgument(f"{self.path} has no {name!r}; it has: {', '.join(self.measures)}")

    def thresholds(self, measure: str) -> tuple[float, ...]:
        """What a report shows of a measure unless told otherwise; quarters of its range if it names none."""
        info = self.measure(measure)
        low, high = info.support
        return info.thresholds or tuple(float(f"{low + (high - low) * k / 4:.4g}") for k in (1, 2, 3))

    @cached_property
    def audit(self) -> Audit | None:
        """What attacks found beside the certificates; None if the run was not audited."""
        return Audit.read(self.folder)

    @property
    def fingerprint(self) -> str | None:
        """Of the network, as ``smoothed.fingerprint`` gives it; None where it is not known."""
        found = (self.config.get("fingerprints") or {}).get("weights")
        return None if found is None else str(found)

    @cached_property
    def spot_check(self) -> SpotCheck | None:
        """A few noisy rows and the network's answers to them; None where none were kept."""
        return SpotCheck.read(self.path / SPOT_CHECK)

    @property
    def status(self) -> str:
        """``complete``, ``running`` or ``interrupted`` as recorded; ``incomplete`` if it should be complete and rows are missing."""
        recorded = str(self.config.get("status", COMPLETE))
        missing = self.config.get("inputs", len(self)) != len(self)
        return "incomplete" if missing and recorded == COMPLETE else recorded

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """What was certified: ``label``, and names of measures."""

    @abstractmethod
    def methods(self, measure: str) -> tuple[str, ...]:
        """The bounds that can be compared for a measure, the run's own first."""

    @property
    @abstractmethod
    def answers(self) -> Answers:
        """Each input's index in its dataset, its label, and the answer."""

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """For each input, whether the answer is its label; an abstention is not an answer."""
        given = self.answers
        return np.asarray((given.predicted == given.label) & ~given.abstained, dtype=np.bool_)

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The only radii a bound is known at; None if any will do."""
        return None

    def tabulate(self, radii: Sequence[float], *, on_inputs: OnDone = ignore) -> None:
        """From now on, compute lower bounds at all of these radii at once, and keep them in memory.

        A report asks for them many times. ``on_inputs`` is told of each bound that had to be computed.
        """
        at = dict.fromkeys(radii if self.radii is None else self.radii)
        self._place = {radius: k for k, radius in enumerate(at)}
        self._table = {}
        self._on_inputs = on_inputs

    def lower(self, measure: str, method: str, radii: ArrayLike) -> NDArray[np.float64]:
        """Certified lower bounds, shape (inputs, radii)."""
        radii = np.asarray(radii, dtype=np.float64)
        wanted = radii.ravel().tolist()
        if not all(radius in self._place for radius in wanted):
            self._on_inputs(len(self))
            return self._lower(measure, method, radii)
        if (measure, method) not in self._table:
            self._table[measure, method] = self._lower(measure, method, np.array(tuple(self._place)))
            self._on_inputs(len(self))
        found = self._table[measure, method][:, [self._place[radius] for radius in wanted]]
        return found.reshape(len(self), *radii.shape)

    @abstractmethod
    def _lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower bounds, computed or read."""

    def export(self, measure: str) -> pa.Table:
        """A log for other people's scripts: Cohen et al.'s for ``label``, the paper's for any measure (``runs/tsv.py``)."""
        if measure not in self.measures:
            raise InvalidArgument(f"{self.path} has no {measure!r} to export; it has: {', '.join(self.measures)}")
        if len(self) == 0:
            raise InvalidArgument(f"{self.path} holds no finished certificates yet; there is nothing to export")
        return self._export(measure)

    @abstractmethod
    def _export(self, measure: str) -> pa.Table:
        """The log of a measure that is there."""

    @property
    @abstractmethod
    def label_radius(self) -> NDArray[np.float64]:
        """For each input, the certified radius of its label; -1 where not even the label at x is certified."""

    @abstractmethod
    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """Each certificate with its label, in the order of the index: what :func:`holdfast.choose_threshold` takes."""

    def verify(self, *, key: str | Path | None = None) -> "Verification":
        """Check the files against their digests and recompute what follows from the counts: :func:`holdfast.runs.verify.verify`."""
        from holdfast.runs.verify import verify

        return verify(self.path, key=None if key is None else Path(key))

    def __len__(self) -> int:
        return len(self.answers.index)

    def certified_accuracy(
        self, measure: str, *, radii: ArrayLike, thresholds: ArrayLike = (), method: str | None = None
    ) -> NDArray[np.float64]:
        """The share of inputs that are right **and** certified above each threshold at each radius.

        Shape (thresholds, radii): strictly above the threshold, as the paper counts. For the label there are no
        thresholds, the shape is (1, radii), and a label radius counts up to and including itself, as Cohen et al. count.
        """
        at = np.atleast_1d(np.asarray(radii, dtype=np.float64))
        if measure == "label":
            held = (self.correct[:, None] & (self.label_radius[:, None] >= at))[None]
            return np.asarray(held.mean(axis=1), dtype=np.float64)
        if measure not in self.measures:
            raise InvalidArgument(f"{self.path} has no {measure!r}; it has: {', '.join(self.measures)}")
        if np.size(thresholds) == 0:
            raise InvalidArgument(
                f"certified accuracy of the {self.measure(measure).title} needs thresholds=, such as [0.5]"
            )
        lower = self.lower(measure, method or self.methods(measure)[0], at)
        above = lower[None, :, :] > np.atleast_1d(np.asarray(thresholds, dtype=np.float64))[:, None, None]
        return np.asarray((self.correct[None, :, None] & above).mean(axis=1), dtype=np.float64)

    def metrics(
        self, *, radii: Sequence[float] | None = None, thresholds: Sequence[float] | None = None
    ) -> dict[str, float]:
        """Certified accuracy by the run's own method as plain numbers, for MLflow, Weights & Biases, or anything else.

        ``{"certified_inputs": 500.0, "smoothed_accuracy": 0.74, "certified_accuracy/label/radius_0.25": 0.6,
        "certified_accuracy/score_above_0.5/radius_0.25": 0.54, ...}``, as :meth:`certified_accuracy` counts.
        """
        from holdfast.runs.metrics import metrics

        return metrics(self, radii=radii, thresholds=thresholds)

    def plot_certified_accuracy(
        self,
        measure: str | None = None,
        *,
        thresholds: ArrayLike | None = None,
        radii: ArrayLike | None = None,
        methods: Sequence[str] | None = None,
        interval: float | None = 0.95,
        axes: "Axes | None" = None,
    ) -> "Axes":
        """Draw certified accuracy against the radius: a colour per threshold, a line style per method.

        ``measure`` is the first that the run certified; the default method is the run's own (``run.methods(measure)``
        lists what can be compared). Bands are confidence intervals of the sample's share (Clopper-Pearson, each point
        on its own): how far it may be from that of the population the inputs were drawn from. ``interval=None`` omits them.
        """
        from matplotlib import pyplot

        from holdfast.runs.plot import draw_accuracy, frame, line_styles, method_handles, threshold_handles

        of = measure or next((each for each in self.measures if each != "label"), "label")
        if of not in self.measures:
            raise InvalidArgument(f"{self.path} has no {of!r}; it has: {', '.join(self.measures)}")
        levels: tuple[float, ...] = ()
        if of != "label":
            asked = self.thresholds(of) if thresholds is None else thresholds
            levels = tuple(np.atleast_1d(np.asarray(asked, dtype=np.float64)).tolist())
        chosen = tuple(methods) if methods is not None else self.methods(of)[:1]
        at = self._axis() if radii is None else np.unique(check_radii(radii))
        if at.size == 0:
            raise InvalidArgument(
                f"radii must be one or more numbers, got {radii!r}; leave them out for the usual ones"
            )
        with house_style():
            # Many lines leave no corner free: a figure of our own has room beside them.
            beside = axes is None and len(chosen) > 1
            if axes is None:
                _, axes = pyplot.subplots(figsize=(7.8 if beside else 5.6, 3.8))
            lines = line_styles(chosen, levels)
            reach = draw_accuracy(axes, self, of, radii=at, lines=lines, thresholds=levels, interval=interval)
            frame(axes, self, at, reach if radii is None else float(at.max()))
            axes.set_ylabel("certified accuracy")
            if not levels:
                handles = method_handles(lines, colour=PALETTE[0])
            else:
                handles = threshold_handles(self.measure(of), levels)
                handles += method_handles(lines) if len(chosen) > 1 else []
            axes.legend(
                handles=handles,
                loc="upper left" if beside else "best",
                bbox_to_anchor=(1.0, 1.0) if beside else None,
                fontsize=8.5,
                handlelength=2.6,
            )
        return axes

    def _axis(self) -> NDArray[np.float64]:
        """Radii to draw at where none were asked for: the only ones known, or up to four times the noise's scale."""
        if self.radii is not None:
            return np.array(self.radii)
        furthest = float(self.label_radius.max(initial=1.0)) if self.noise is None else 4 * self.noise.scale
        return np.linspace(0.0, furthest, _POINTS)
