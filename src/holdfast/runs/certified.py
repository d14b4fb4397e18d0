"""A run of Holdfast's own: every bound can be computed again from the stored counts."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Curves
from holdfast.bounds.named import method_named
from holdfast.errors import RunError
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import LABEL_METHOD, Run
from holdfast.runs.store import Entry, read_entries

PAPER = "cdf-dkw"
BASELINE = "naive-hoeffding"


class CertifiedRun(Run):
    """Certificates with the samples' histograms: any radius, threshold, method or alpha, without sampling again."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._folder = folder
        self._curves: dict[tuple[str, str], Curves] = {}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All inputs, in the order of their index."""
        found = tuple(read_entries(self._folder))
        if len({entry.index for entry in found}) != len(found):
            raise RunError(f"{self.path} holds the same input more than once; remove the part file that was copied")
        return found

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

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
        answers = [-1 if entry.certificate.abstained else entry.certificate.predicted for entry in self.entries]
        return np.equal(answers, [entry.label for entry in self.entries], dtype=np.bool_)

    @cached_property
    def label_radius(self) -> NDArray[np.float64]:
        """Cohen et al.'s radius; -1 where the label is not certified."""
        labels = [entry.certificate.label for entry in self.entries]
        return np.array([label.radius if label.certified else -1.0 for label in labels], dtype=np.float64)

    def curves(self, measure: str, method: str) -> Curves:
        """One curve per input, at the share of alpha that the measure has on the certificate; computed once."""
        if (measure, method) not in self._curves:
            chosen = method_named(method)
            self._curves[measure, method] = Curves(
                [getattr(entry.certificate.recompute(method=chosen), measure) for entry in self.entries]
            )
        return self._curves[measure, method]

    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computed from the stored counts."""
        return self.curves(measure, method).lower(radii)
