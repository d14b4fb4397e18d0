"""A run whose bounds are computed once and read many times: by the table, the figures and the page."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.certificates.certificate import Certificate
from holdfast.progress import OnDone, ignore
from holdfast.runs.run import Answers, Run


class TabulatedRun(Run):
    """Another run, with its lower bounds at chosen radii kept in memory; any other radius is asked of the run itself.

    ``on_inputs`` is told of each bound that had to be computed.
    """

    def __init__(self, run: Run, at: Sequence[float], *, on_inputs: OnDone = ignore) -> None:
        self.path, self.config = run.path, run.config
        self.run = run
        self._on_inputs = on_inputs
        self._where = {radius: k for k, radius in enumerate(at if run.radii is None else run.radii)}
        self._known: dict[tuple[str, str], NDArray[np.float64]] = {}

    @property
    def measures(self) -> tuple[str, ...]:
        """As the run says."""
        return self.run.measures

    def methods(self, measure: str) -> tuple[str, ...]:
        """As the run says."""
        return self.run.methods(measure)

    @property
    def answers(self) -> Answers:
        """As the run says."""
        return self.run.answers

    @property
    def correct(self) -> NDArray[np.bool_]:
        """As the run says."""
        return self.run.correct

    @property
    def radii(self) -> tuple[float, ...] | None:
        """As the run says."""
        return self.run.radii

    @property
    def label_radius(self) -> NDArray[np.float64]:
        """As the run says."""
        return self.run.label_radius

    def lower(self, measure: str, method: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """From memory where all radii are known there."""
        where = [self._where[radius] for radius in radii.tolist() if radius in self._where]
        if len(where) < radii.size:
            self._on_inputs(len(self))
            return self.run.lower(measure, method, radii)
        if (measure, method) not in self._known:
            self._known[measure, method] = self.run.lower(measure, method, np.array(tuple(self._where)))
            self._on_inputs(len(self))
        return self._known[measure, method][:, where]

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """As the run says."""
        return self.run.labelled()

    def __len__(self) -> int:
        return len(self.run)
