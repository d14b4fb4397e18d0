"""A run read back from disk: certificates, or an imported log of somebody else's."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.certificate import Certificate
from holdfast.errors import InvalidArgument, RunError
from holdfast.runs.folder import RunFolder

LABEL_METHOD = "votes-clopper-pearson"


class Run(ABC):
    """What a report needs of a run: who was predicted rightly, and how low each bound is at each radius."""

    def __init__(self, folder: RunFolder) -> None:
        self.path = folder.path
        self.config: dict[str, Any] = folder.config()

    @staticmethod
    def open(path: str | Path) -> "Run":
        """Open ``runs/NAME``; needs no torch and no model."""
        from holdfast.runs.certified import CertifiedRun
        from holdfast.runs.imported import ImportedRun

        folder = RunFolder.open(Path(path))
        kind = folder.config().get("kind")
        if kind == "certified":
            return CertifiedRun(folder)
        if kind == "imported":
            return ImportedRun(folder)
        raise RunError(f"{path} is a run of unknown kind {kind!r}; expected certified or imported")

    @property
    def sigma(self) -> float | None:
        """Standard deviation of the noise, where it is known."""
        sigma = self.config.get("sigma")
        if sigma is not None and not isinstance(sigma, int | float):
            raise RunError(f"{self.path}/run.json: sigma must be a number, got {sigma!r}; restore it from a copy")
        return None if sigma is None else float(sigma)

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """What was certified: of ``label``, ``score`` and ``margin``."""

    @abstractmethod
    def methods(self, measure: str) -> tuple[str, ...]:
        """The bounds that can be compared for a measure, the run's own first."""

    @property
    @abstractmethod
    def correct(self) -> NDArray[np.bool_]:
        """For each input, whether the answer is its label; an abstention is not an answer."""

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The only radii a bound is known at; None if any will do."""
        return None

    @abstractmethod
    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """Certified lower bounds, shape (inputs, radii)."""

    @property
    @abstractmethod
    def label_radius(self) -> NDArray[np.float64]:
        """For each input, the certified radius of its label; -1 where not even the label at x is certified."""

    @abstractmethod
    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """Each certificate with its label, in the order of the index: what :func:`holdfast.choose_threshold` takes."""

    def __len__(self) -> int:
        return len(self.correct)

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
            raise InvalidArgument(f"certified accuracy of a {measure} needs thresholds=, such as [0.5]")
        lower = self.lower(measure, method or self.methods(measure)[0], at)
        above = lower[None, :, :] > np.atleast_1d(np.asarray(thresholds, dtype=np.float64))[:, None, None]
        return np.asarray((self.correct[None, :, None] & above).mean(axis=1), dtype=np.float64)
