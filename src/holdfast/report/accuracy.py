"""Certified accuracy of runs, as a table of numbers that text, JSON and figures share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.certificates.proportions import LEVEL, share_intervals
from holdfast.errors import InvalidArgument
from holdfast.runs.method_names import LABEL_METHOD, guaranteed
from holdfast.runs.run import Run


@dataclass(frozen=True)
class AccuracyRow:
    """One line of the table: certified accuracy by radius, for one run, measure, method and threshold."""

    run: str
    measure: str
    method: str
    guaranteed: bool
    threshold: float | None
    radii: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Question:
    """What a report is asked: which radii, thresholds and methods; None means the usual ones."""

    radii: tuple[float, ...] | None = None
    thresholds: tuple[float, ...] | None = None
    methods: tuple[str, ...] | None = None

    def radii_for(self, run: Run) -> tuple[float, ...]:
        """The radii asked for, or the usual ones."""
        return run.usual_radii if self.radii is None else self.radii

    def thresholds_for(self, run: Run, measure: str) -> tuple[float, ...]:
        """The thresholds asked for, or the measure's usual ones."""
        return self.thresholds if self.thresholds is not None else run.thresholds(measure)

    def methods_for(self, run: Run, measure: str) -> tuple[str, ...]:
        """The methods asked for, or all the run has."""
        return self.methods if self.methods is not None else run.methods(measure)


def measures_of(runs: Sequence[Run]) -> list[str]:
    """What any of the runs certified: measures in the order of their runs, and the label last."""
    found = dict.fromkeys(measure for run in runs for measure in run.measures)
    return sorted(found, key=lambda measure: measure == "label")


def accuracy_rows(run: Run, question: Question) -> Iterator[AccuracyRow]:
    """The table of one run."""
    radii = question.radii_for(run)
    at = np.array(radii)
    name = run.path.name
    for measure in run.measures:
        if measure == "label":
            values = run.certified_accuracy("label", radii=at)[0]
            yield AccuracyRow(name, "label", LABEL_METHOD, True, None, radii, tuple(values.tolist()))
            continue
        thresholds = question.thresholds_for(run, measure)
        for method in question.methods_for(run, measure):
            table = run.certified_accuracy(measure, radii=at, thresholds=thresholds, method=method)
            sure = guaranteed(method)
            for threshold, values in zip(thresholds, table, strict=True):
                yield AccuracyRow(name, measure, method, sure, threshold, radii, tuple(values.tolist()))


def as_json(runs: Sequence[Run], question: Question) -> dict[str, Any]:
    """The report for programs; ``certified_accuracy`` has one entry per measure, method, threshold and radius."""
    return {
        "runs": [
            {
                "run": str(run.path),
                "kind": run.config["kind"],
                "status": run.status,
                "inputs": len(run),
                "accuracy": float(run.correct.mean()),
                "data": run.config.get("data"),
                "sigma": run.sigma,
                "noise": None if run.noise is None else run.noise.to_dict(),
                "norm": run.norm,
                "units": run.units or None,
                "measures": [run.measure(name).to_dict() for name in measures_of([run]) if name != "label"],
                **{key: run.config.get(key) for key in ("n", "n0", "alpha", "claims", "sides", "method")},
                "audit": None if run.audit is None else run.audit.to_dict(),
                "interval_level": LEVEL,
                "certified_accuracy": [
                    {
                        "measure": row.measure,
                        "method": row.method,
                        "guaranteed": row.guaranteed,
                        "threshold": row.threshold,
                        "radius": radius,
                        "value": value,
                        "interval": share_interval(value, len(run)),
                    }
                    for row in accuracy_rows(run, question)
                    for radius, value in zip(row.radii, row.values, strict=True)
                ],
            }
            for run in runs
        ]
    }


def share_interval(share: float, n: int) -> list[float]:
    """Where the population's share is likely to be; see :class:`~holdfast.certificates.proportions.ShareIntervals`."""
    of, k = share_intervals(n), round(share * n)
    return [float(of.lower[k]), float(of.upper[k])]


def work(runs: Sequence[Run], question: Question) -> int:
    """How many inputs' bounds one table of all runs takes, for a progress bar."""
    return sum(
        len(run) * len(question.methods_for(run, measure))
        for run in runs
        for measure in run.measures
        if measure != "label"
    )


def check_runs(runs: Sequence[Run]) -> None:
    """Refuse a report of nothing."""
    for run in runs:
        if len(run) == 0:
            raise InvalidArgument(f"{run.path} holds no finished certificates yet; there is nothing to report")
