"""A run of Holdfast's own: every bound can be computed again from the stored counts."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds import Curve, Method, bound
from holdfast.bounds.named import as_method
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import RunError
from holdfast.noise import Noise, noise_text, sampled_noise
from holdfast.runs.calibration_checks import check_held_out, check_whole
from holdfast.runs.folder import recorded_noise
from holdfast.runs.method_names import LABEL_METHOD
from holdfast.runs.run import Answers, Run
from holdfast.runs.store import Entry, read_columns, read_entries, read_scores, read_shifts
from holdfast.runs.tsv import PAPER_RADII, LogOrigin, log_table, with_origin
from holdfast.scores import OccupiedCounters, RandomOrder
from holdfast.validation import check_position, check_radii

PAPER = "cdf-dkw"
BASELINE = "naive-hoeffding"


class CertifiedRun(Run):
    """Certificates with the samples' histograms: any radius, threshold, method or alpha, without sampling again.

    Iterating reads the entries from disk, one part at a time; ``entries`` keeps all of them in memory.
    """

    @property
    def noise(self) -> Noise:
        """The noise that was added."""
        found = recorded_noise(self.config)
        if found is None:
            raise RunError(f"{self.path}/run.json says nothing of the noise; restore it from a copy")
        return found

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All inputs, in the order of their index, in memory."""
        return tuple(self)

    def __iter__(self) -> Iterator[Entry]:
        return read_entries(self.folder, self.config, self.noise, self.counted)

    def __len__(self) -> int:
        return len(self._index)

    @cached_property
    def _index(self) -> NDArray[np.int64]:
        return self.columns(["index"])["index"]

    @overload
    def __getitem__(self, position: int) -> Entry: ...
    @overload
    def __getitem__(self, position: slice) -> list[Entry]: ...
    def __getitem__(self, position: int | slice) -> Entry | list[Entry]:
        """Read from disk: to go through many, iterate, or take a slice."""
        wanted = np.zeros(len(self), dtype=np.bool_)
        if isinstance(position, slice):
            wanted[position] = True
            found = list(self.some(wanted))
            return found if position.step is None or position.step > 0 else found[::-1]
        wanted[check_position(self.path, position, len(self))] = True
        return next(self.some(wanted))

    def some(self, where: NDArray[np.bool_]) -> Iterator[Entry]:
        """The entries where it is true, in the order of the index."""
        return read_entries(self.folder, self.config, self.noise, self.counted, where=where)

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """One at a time; a run that is no fair sample is refused.

        Inputs that happen to be finished, or whose file is left, are not drawn like the others; and on inputs that the
        network was trained on it is surer than on new ones.
        """
        check_whole(self.path, self.config, len(self))
        check_held_out(self.path, self.config)
        return ((entry.certificate, entry.label) for entry in self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The certificates' claims."""
        return tuple(self.config["claims"])

    @property
    def _alpha(self) -> float:
        """Of each claim."""
        return float(self.config["alpha"]) / len(self.measures)

    def methods(self, measure: str) -> tuple[str, ...]:
        """The run's own method, the paper's, and the paper's baseline; each at the same alpha, and each on its own."""
        if measure == "label":
            return (LABEL_METHOD,)
        return tuple(dict.fromkeys((str(self.config["method"]), PAPER, BASELINE)))

    @cached_property
    def answers(self) -> Answers:
        """Classes as stored; an abstention names the class it was about.

        Which inputs are abstained on is decided again from the counts; most are not, by their votes alone.
        """
        stored = self.columns(["index", "label", "predicted"])
        abstained = self.label_radius < 0 if "label" in self.measures else np.ones(len(stored["index"]), dtype=np.bool_)
        abstained[abstained] = [entry.certificate.abstained for entry in self.some(abstained)]
        return Answers(stored["index"], stored["label"], stored["predicted"], abstained)

    @cached_property
    def label_radius(self) -> NDArray[np.float64]:
        """Cohen et al.'s radius; -1 where the label is not certified."""
        stored = self.columns(["n", "votes"])
        seen = np.stack((stored["votes"], stored["n"], self.shifts))
        different, where = np.unique(seen, axis=1, return_inverse=True)
        labels = [
            LabelCertificate(int(votes), int(n), alpha=self._alpha, noise=self.seen(shift))
            for votes, n, shift in different.T
        ]
        radii = np.array([label.radius if label.certified else -1.0 for label in labels], dtype=np.float64)
        return radii[where.ravel()]

    @property
    def step(self) -> float:
        """Of the grid that the classifier rounds its input to; 0.0 for the float32 noise of Holdfast 0.1.0."""
        return float(self.config["provenance"].get("step", 0.0))

    @cached_property
    def shifts(self) -> NDArray[np.float64]:
        """How far each input was from the point that was sampled; every radius is reduced by it."""
        return read_shifts(self.folder)

    def columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Plain columns as they are stored, in the order of the index; see docs/runs.md."""
        return read_columns(self.folder, names)

    def _lower(self, measure: str, method: Method | str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computed from the stored counts, at the share of alpha that the measure has on the certificate."""
        found = [curve.lower(radii) for curve in self._curves(measure, method)]
        return np.reshape(found, (len(self), *radii.shape))

    def upper(self, measure: str, method: Method | str, radii: ArrayLike) -> NDArray[np.float64]:
        """Certified upper bounds, shape (inputs, radii), for a run with ``sides="both"``."""
        self._check_measure(measure)
        radii = check_radii(radii)
        found = [curve.upper(radii) for curve in self._curves(measure, method)]
        return np.reshape(found, (len(self), *radii.shape))

    def scores(self, measure: str) -> Iterator[OccupiedCounters]:
        """The stored counts of every input's scores, in the order of the index."""
        stored = read_scores(self.folder, self.measure(measure), self.noise)
        indices = self._index.tolist()
        return (
            scores.under(self.seen(shift), self.order(index))
            for scores, shift, index in zip(stored, self.shifts, indices, strict=True)
        )

    def _curves(self, measure: str, method: Method | str) -> Iterator[Curve]:
        chosen, sides = as_method(method), self.config["sides"]
        for scores in self.scores(measure):
            yield bound(scores, alpha=self._alpha, method=chosen, sides=sides)

    def seen(self, shift: float) -> Noise:
        """What the copies know of the noise around an input that is so far from the point sampled."""
        return sampled_noise(self.noise, self.step, float(shift))

    def order(self, index: int) -> RandomOrder:
        """The order of an input's copies, for methods that need one."""
        return RandomOrder(int(self.config["provenance"]["seed"], 16), index)

    def _log(self, measure: str) -> pa.Table:
        given, seconds = self.answers, self.columns(["seconds"])["seconds"]
        if measure == "label":
            abstained, methods = self.label_radius < 0, self.methods(measure)
            numbers = np.maximum(self.label_radius, 0.0)[:, None]
        else:
            abstained, methods = given.abstained, (self.methods(measure)[0], BASELINE)
            numbers = np.hstack([self.lower(measure, method, PAPER_RADII) for method in methods])
        log = log_table(given.index, given.label, np.where(abstained, -1, given.predicted), numbers, seconds)
        origin = LogOrigin(
            measure=measure,
            noise=noise_text(self.noise),
            methods=methods,
            n=self.config["n"],
            n0=self.config["n0"],
            alpha=self.config["alpha"],
            claims=self.measures,
            sides=self.config["sides"],
            units=" ".join(self.units.split()),
        )
        return with_origin(log, origin)
