"""A run of Holdfast's own: every bound can be computed again from the stored counts."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Curve, Curves, bound
from holdfast.bounds.named import method_named
from holdfast.certificate import Certificate
from holdfast.label import LabelCertificate
from holdfast.runs.folder import RunFolder
from holdfast.runs.parts import read_columns, read_indices
from holdfast.runs.run import LABEL_METHOD, Run
from holdfast.runs.store import Entry, read_entries, read_scores

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
        self._curves: dict[tuple[str, str], Curves] = {}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All inputs, in the order of their index, in memory."""
        return tuple(read_entries(self._folder))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries) if len(self) <= _KEPT else read_entries(self._folder)

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """One at a time, from the store if the run is long."""
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
    def correct(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the label, and certified at the input itself."""
        stored = self.columns(["label", "predicted", "abstained"])
        return np.asarray((stored["predicted"] == stored["label"]) & ~stored["abstained"].astype(bool), dtype=np.bool_)

    @cached_property
    def label_radius(self) -> NDArray[np.float64]:
        """Cohen et al.'s radius; -1 where the label is not certified."""
        stored = self.columns(["n", "votes"])
        pairs, where = np.unique(np.stack((stored["votes"], stored["n"])), axis=1, return_inverse=True)
        share = float(self.config["alpha"]) / len(self.measures)
        labels = [LabelCertificate(int(votes), int(n), float(self.config["sigma"]), share) for votes, n in pairs.T]
        radii = np.array([label.radius if label.certified else -1.0 for label in labels], dtype=np.float64)
        return radii[where.ravel()]

    def columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Plain columns as they are stored, in the order of the index; see docs/runs.md."""
        return read_columns(self._folder, names)

    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computed from the stored counts, at the share of alpha that the measure has on the certificate."""
        if len(self) <= _KEPT:
            if (measure, method) not in self._curves:
                self._curves[measure, method] = Curves(list(self._bounded(measure, method)))
            return self._curves[measure, method].lower(radii)
        found = np.empty((len(self), *radii.shape))
        for row, curve in enumerate(self._bounded(measure, method)):
            found[row] = curve.lower(radii)
        return found

    def _bounded(self, measure: str, method: str) -> Iterator[Curve]:
        share, chosen = float(self.config["alpha"]) / len(self.measures), method_named(method)
        for scores in read_scores(self._folder, measure):
            yield bound(scores, alpha=share, method=chosen, sides=self.config["sides"])
