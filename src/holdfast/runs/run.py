"""A run read back from disk: certificates, or an imported log of somebody else's."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds import Method
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.describe import UNKNOWN_NORM
from holdfast.certificates.spot_check import SpotCheck
from holdfast.errors import InvalidArgument, RunError
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, noise_fields
from holdfast.plotting import PALETTE
from holdfast.progress import OnDone, ignore
from holdfast.runs.audit import Audit
from holdfast.runs.config_checks import check_config
from holdfast.runs.folder import COMPLETE, RunFolder, recorded_measures, recorded_noise, write_output
from holdfast.runs.manifest import SPOT_CHECK
from holdfast.runs.method_names import several
from holdfast.runs.tsv import write_log
from holdfast.scores.rounding import format_count
from holdfast.validation import check_numbers, check_path, check_radii

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.report.report import Report
    from holdfast.runs.store import Entry
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

        folder = RunFolder.open(check_path("path", path))
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

    @property
    def units(self) -> str:
        """What radii are in, where that is not the input's own units; empty where it is."""
        return str(self.config.get("provenance", self.config).get("units", ""))

    @property
    def radii_in(self) -> str:
        """The norm of radii, and their units where they are not the input's, in words."""
        return (self.norm or UNKNOWN_NORM) + (f", in {self.units}" if self.units else "")

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

    def lower(self, measure: str, method: Method | str, radii: ArrayLike) -> NDArray[np.float64]:
        """Certified lower bounds, shape (inputs, radii); ``method`` is an object such as ``CDF(band=DKW())``, or its name."""
        self._check_measure(measure)
        radii = check_radii(radii)
        wanted = radii.ravel().tolist()
        if not isinstance(method, str) or not all(radius in self._place for radius in wanted):
            self._on_inputs(len(self))
            return self._lower(measure, method, radii)
        if (measure, method) not in self._table:
            self._table[measure, method] = self._lower(measure, method, np.array(tuple(self._place)))
            self._on_inputs(len(self))
        found = self._table[measure, method][:, [self._place[radius] for radius in wanted]]
        return found.reshape(len(self), *radii.shape)

    @abstractmethod
    def _lower(self, measure: str, method: Method | str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower bounds, computed or read."""

    def _check_measure(self, measure: str) -> None:
        if measure == "label" or measure not in self.measures:
            having = ", ".join(each for each in self.measures if each != "label") or "label radii only (label_radius)"
            raise InvalidArgument(f"{self.path} has no bounds on the {measure!r}; it has: {having}")

    def export(self, measure: str, out: str | Path) -> Path:
        """Write a log for other people's scripts: Cohen et al.'s for ``"label"``, the paper's for any measure.

        A tab-separated file, with bounds and radii rounded down to three digits; nothing is overwritten. ``holdfast import``
        reads it back as what it is.
        """
        log, target = self.log_of(measure), check_path("out", out)
        return write_output(target, lambda path: write_log(path, log))

    def log_of(self, measure: str) -> pa.Table:
        """What :meth:`export` writes, in memory (``runs/tsv.py``)."""
        if measure not in self.measures:
            raise InvalidArgument(f"{self.path} has no {measure!r} to export; it has: {', '.join(self.measures)}")
        if len(self) == 0:
            raise InvalidArgument(f"{self.path} holds no finished certificates yet; there is nothing to export")
        return self._log(measure)

    @abstractmethod
    def _log(self, measure: str) -> pa.Table:
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

        return verify(self.path, key=None if key is None else check_path("key", key))

    def _repr_html_(self) -> str:
        from holdfast.runs.card import run_card

        return run_card(self)

    def __len__(self) -> int:
        return len(self.answers.index)

    @abstractmethod
    def __iter__(self) -> "Iterator[Entry]":
        """The inputs in the order of their index, each with its label and its certificate."""

    @overload
    def __getitem__(self, position: int) -> "Entry": ...
    @overload
    def __getitem__(self, position: slice) -> "list[Entry]": ...
    @abstractmethod
    def __getitem__(self, position: int | slice) -> "Entry | list[Entry]":
        """One input, or several, by their position in the order of the index."""

    def __repr__(self) -> str:
        said = [format_count(len(self), "input"), self.status]
        if (
            of := self.config.get("data") or self.config.get("source")
        ) != "inputs":  # what they are called without a name
            said[0] += f" of {of}"
        said += [", ".join(self.measures), "unknown noise" if self.noise is None else str(self.noise)]
        said += [
            f"{name}={self.config[name]:{form}}" for name, form in (("n", ","), ("alpha", "g")) if name in self.config
        ]
        return f"{type(self).__name__}({str(self.path)!r}: {'; '.join(said)})"

    def to_frame(self, *, radii: ArrayLike | None = None, method: Method | str | None = None) -> Any:
        """One row an input, as a pandas DataFrame if pandas is installed, else as a PyArrow table.

        Columns: ``index``, ``label``, ``predicted``, ``abstained``, ``correct``; ``label_radius`` (missing where the label is not
        certified); ``score_lower_at_0.25``, ... for each measure at each of ``radii``, and ``..._upper_at_...`` for a run with
        both sides. ``method`` is in place of the run's own.
        """
        from holdfast.runs.frame import frame

        return frame(self, self.usual_radii if radii is None else check_radii(radii, "radii").ravel().tolist(), method)

    def report(
        self,
        out: str | Path | None = None,
        *,
        beside: "Run | Sequence[Run]" = (),
        radii: ArrayLike | None = None,
        thresholds: ArrayLike | None = None,
        methods: "Sequence[Method | str] | None" = None,
        data: str | Sequence[str] = (),
    ) -> "Report":
        """What ``holdfast report`` makes: figures and one HTML file in the folder ``out``, and tables to print.

        ``print(run.report())`` shows the tables. By default ``out`` is ``figures/`` in the run. ``beside`` are runs to compare it
        with; ``data`` names those of the inputs, as for ``--data``, for pictures.
        """
        from holdfast.report.report import write_report

        return write_report(
            [self, *([beside] if isinstance(beside, Run) or not isinstance(beside, Iterable) else beside)],
            out,
            radii=radii,
            thresholds=thresholds,
            methods=methods,
            data=data,
        )

    @property
    def usual_radii(self) -> tuple[float, ...]:
        """Where its bounds are shown unless somebody asks for others: the only ones known, or up to four times the noise's scale."""
        if self.radii is not None:
            return self.radii
        step = 0.25 if self.noise is None else self.noise.scale
        return tuple(round(k * step, 6) for k in range(5))

    def certified_accuracy(
        self,
        measure: str | None = None,
        *,
        radii: ArrayLike | None = None,
        thresholds: ArrayLike | None = None,
        method: Method | str | None = None,
    ) -> NDArray[np.float64]:
        """The share of inputs that are right **and** certified above each threshold at each radius.

        ``measure`` is the first that the run certified, ``thresholds`` are ``run.thresholds(measure)`` and ``radii`` are
        ``run.usual_radii``. ``method`` is an object such as ``CDF(band=DKW())``, or its name; by default the run's own.
        Shape (thresholds, radii): strictly above the threshold, as the paper counts. For the label there are no
        thresholds, the shape is (1, radii), and a label radius counts up to and including itself, as Cohen et al. count.
        """
        of, at = self._measure_of(measure), np.atleast_1d(check_radii(self.usual_radii if radii is None else radii))
        if of == "label":
            held = (self.correct[:, None] & (self.label_radius[:, None] >= at))[None]
            return np.asarray(held.mean(axis=1), dtype=np.float64)
        above = np.atleast_1d(check_numbers("thresholds", self.thresholds(of) if thresholds is None else thresholds))
        if above.size == 0 or np.isnan(above).any():
            raise InvalidArgument(
                f"certified accuracy of the {self.measure(of).title} needs thresholds=, such as [0.5], got {thresholds!r}"
            )
        lower = self.lower(of, self.methods(of)[0] if method is None else method, at)
        held = self.correct[None, :, None] & (lower[None, :, :] > above[:, None, None])
        return np.asarray(held.mean(axis=1), dtype=np.float64)

    def _measure_of(self, measure: str | None) -> str:
        """The measure of that name, or by default the first that is not the label."""
        of = measure or next((each for each in self.measures if each != "label"), "label")
        if of not in self.measures:
            raise InvalidArgument(f"{self.path} has no {of!r}; it has: {', '.join(self.measures)}")
        return of

    def metrics(self, *, radii: ArrayLike | None = None, thresholds: ArrayLike | None = None) -> dict[str, float]:
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
        methods: Sequence[Method | str] | None = None,
        interval: float | None = 0.95,
        axes: "Axes | None" = None,
    ) -> "Axes":
        """Draw certified accuracy against the radius: a colour per threshold, a line style per method.

        ``measure`` is the first that the run certified; the default method is the run's own (``run.methods(measure)``
        lists what can be compared). Bands are confidence intervals of the sample's share (Clopper-Pearson, each point
        on its own): how far it may be from that of the population the inputs were drawn from. ``interval=None`` omits them.
        """
        from holdfast.runs.plot import draw_accuracy, frame, line_styles, method_handles, run_titles, threshold_handles

        of = self._measure_of(measure)
        levels: tuple[float, ...] = ()
        if of != "label":
            asked = self.thresholds(of) if thresholds is None else thresholds
            levels = tuple(np.atleast_1d(check_numbers("thresholds", asked)).tolist())
        chosen = self.methods(of)[:1] if methods is None else several(methods)
        at = self._axis() if radii is None else np.unique(check_radii(radii))
        if at.size == 0:
            raise InvalidArgument(
                f"radii must be one or more numbers, got {radii!r}; leave them out for the usual ones"
            )
        # Many lines leave no corner free: a figure of our own has room beside them.
        beside = axes is None and len(chosen) > 1
        if axes is None:
            from matplotlib import pyplot

            from holdfast.house_figure import HouseFigure

            axes = pyplot.figure(FigureClass=HouseFigure, figsize=(7.8 if beside else 5.6, 3.8)).add_subplot()
        lines = line_styles(chosen, levels)
        reach = draw_accuracy(axes, self, of, radii=at, lines=lines, thresholds=levels, interval=interval)
        frame(axes, self, at, reach if radii is None else float(at.max()))
        axes.set_title(run_titles([self])[0], fontsize=9.5)
        axes.set_ylabel("certified accuracy")
        if not levels:
            handles = method_handles(lines, dict.fromkeys(lines, PALETTE[0]))
        else:
            handles = threshold_handles(self.measure(of), levels)
            handles += method_handles(lines) if len(chosen) > 1 else []
        axes.legend(
            handles=handles,
            loc="upper left" if beside else "best",
            bbox_to_anchor=(1.0, 1.0) if beside else None,
            fontsize=8.5,
            handlelength=2.6,
            edgecolor="none",
        )
        return axes

    def _axis(self) -> NDArray[np.float64]:
        """Radii to draw at where none were asked for: the only ones known, or up to four times the noise's scale."""
        if self.radii is not None:
            return np.array(self.radii)
        furthest = float(self.label_radius.max(initial=1.0)) if self.noise is None else 4 * self.noise.scale
        return np.linspace(0.0, furthest, _POINTS)
