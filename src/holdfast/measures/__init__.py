"""Confidence measures: what is averaged over the noise."""

from collections.abc import Sequence

from holdfast.errors import InvalidArgument
from holdfast.measures.margin import Margin, votes_within
from holdfast.measures.mass import Mass
from holdfast.measures.measure import SUM_TOLERANCE, SUM_TOLERANCE_0_1_0, Measure, MeasureInfo
from holdfast.measures.score import PredictionScore, sum_tolerance

DEFAULT_MEASURES: tuple[Measure, ...] = (PredictionScore(), Margin())
"""What is counted on every noisy copy; further ones are counted beside them."""


def measure_named(name: str) -> Measure:
    """A measure from its name, for the command line: ``score``, ``margin``, ``mass-3-5``, ..."""
    for measure in DEFAULT_MEASURES:
        if measure.name == name:
            return measure
    kind, *rest = name.split("-")
    if kind == "mass" and rest and all(part.isdecimal() for part in rest):
        return Mass(map(int, rest))
    known = ", ".join(measure.name for measure in DEFAULT_MEASURES)
    raise InvalidArgument(f"unknown measure {name!r}; expected {known}, or mass-3-5 for the mass of classes 3 and 5")


def all_measures(further: Sequence[Measure]) -> tuple[Measure, ...]:
    """The default measures and these, if their names differ."""
    if not isinstance(further, Sequence) or not all(isinstance(measure, Measure) for measure in further):
        raise InvalidArgument(f"measures must be a list of measures, such as [Mass({{3, 5}})], got {further!r}")
    measures = (*DEFAULT_MEASURES, *further)
    names = [measure.info.name for measure in measures]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"measures must have different names, got {', '.join(names)}")
    return measures


def support_of(name: str, measures: Sequence[Measure]) -> tuple[float, float]:
    """The range of the measure of that name."""
    for measure in measures:
        if measure.name == name:
            return measure.support
    known = " or ".join(f'"{measure.name}"' for measure in measures)
    raise InvalidArgument(f"measure must be {known}, got {name!r}")


__all__ = [
    "DEFAULT_MEASURES",
    "SUM_TOLERANCE",
    "SUM_TOLERANCE_0_1_0",
    "Margin",
    "Mass",
    "Measure",
    "MeasureInfo",
    "PredictionScore",
    "all_measures",
    "measure_named",
    "sum_tolerance",
    "support_of",
    "votes_within",
]
