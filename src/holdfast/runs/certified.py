"""A run of Holdfast's own: every bound can be computed again from the stored counts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Curve, bound
from holdfast.bounds.named import method_named
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import RunError
from holdfast.noise import Noise
from holdfast.runs.calibration_checks import check_held_out, check_whole
from holdfast.runs.folder import RunFolder
from holdfast.runs.method_names import LABEL_METHOD
from holdfast.runs.parts import read_columns, read_indices
from holdfast.runs.run import Answers, Run
from holdfast.runs.store import Entry, read_entries, read_scores
from holdfast.scores import OccupiedCounters

PAPER = "cdf-dkw"
BASELINE = "naive-hoeffding"
_KEPT = 1_000


class CertifiedRun(Run):
    """Certificates with the samples' histograms: any radius, threshold, method or alpha, without sampling again.

    A run of up to a thousand inputs is kept in memory once it is asked for; a longer one is read again each time.
    """

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._folder = folder
        self._curves: dict[tuple[str, str], list[Curve]] = {}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All inputs, in the order of their index, in memory."""
        return tuple(read_entries(self._folder))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries) if len(self) <= _KEPT else read_entries(self._folder)

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """One at a time, from the store if the run is long; a run that is no fair sample is refused.

        Inputs that happen to be finished, or whose file is left, are not drawn like the others; and on inputs that the
        network was trained on it is surer than on new ones.
        """
        check_whole(self.path, self.config, len(self))
        check_held_out(self.path, self.config)
        return ((entry.certificate, entry.label) for entry in self)

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        return len(read_indices(self._folder))

    @property
    def measures(self) -> tuple[str, ...]:
        """The certificates' claims."""
        return tuple(self.config["claims"])

    def methods(self, measure: str) -> tuple[str, ...]:
        """The run's own method, the paper's, and the paper's baseline; each at the same alpha, and each on its own."""
        if measure == "label":
            return (LABEL_METHOD,)
        return tuple(dict.fromkeys((str(self.config["method"]), PAPER, BASELINE)))

    @cached_property
    def answers(self) -> Answers:
        """As stored; an abstention names the class it was about."""
        stored = self.columns(["index", "label", "predicted", "abstained"])
        return Answers(**{**stored, "abstained": stored["abstained"].astype(np.bool_)})

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the label, and certified at the input itself."""
        given = self.answers
        return np.asarray((given.predicted == given.label) & ~given.abstained, dtype=np.bool_)

    @cached_property
    def label_radius(self) -> NDArray[np.float64]:
        """Cohen et al.'s radius; -1 where the label is not certified."""
        stored = self.columns(["n", "votes"])
        pairs, where = np.unique(np.stack((stored["votes"], stored["n"])), axis=1, return_inverse=True)
        share = float(self.config["alpha"]) / len(self.measures)
        labels = [LabelCertificate(int(votes), int(n), alpha=share, noise=self._noise) for votes, n in pairs.T]
        radii = np.array([label.radius if label.certified else -1.0 for label in labels], dtype=np.float64)
        return radii[where.ravel()]

    def columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Plain columns as they are stored, in the order of the index; see docs/runs.md."""
        return read_columns(self._folder, names)

    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computed from the stored counts, at the share of alpha that the measure has on the certificate."""
        return self._values(measure, method, radii, lambda curve: curve.lower(radii))

    def upper(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same from above, for a run with ``sides="both"``."""
        return self._values(measure, method, radii, lambda curve: curve.upper(radii))

    def scores(self, measure: str) -> Iterator[OccupiedCounters]:
        """The stored counts of every input's scores, in the order of the index."""
        return read_scores(self._folder, self.measure(measure), self._noise)

    @cached_property
    def _noise(self) -> Noise:
        if self.noise is None:
            raise RunError(f"{self.path}/run.json says nothing of the noise; restore it from a copy")
        return self.noise

    def _values(
        self, measure: str, method: str, radii: NDArray[np.float64], value: Callable[[Curve], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        curves: Iterable[Curve] = self._bounded(measure, method)
        if len(self) <= _KEPT:
            if (measure, method) not in self._curves:
                self._curves[measure, method] = list(curves)
            curves = self._curves[measure, method]
        found = np.empty((len(self), *radii.shape))
        for row, curve in enumerate(curves):
            found[row] = value(curve)
        return found

    def _bounded(self, measure: str, method: str) -> Iterator[Curve]:
        share, chosen = float(self.config["alpha"]) / len(self.measures), method_named(method)
        for scores in self.scores(measure):
            yield bound(scores, alpha=share, method=chosen, sides=self.config["sides"])
