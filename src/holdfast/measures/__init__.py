"""Confidence measures: what is averaged over the noise."""

from holdfast.errors import InvalidArgument
from holdfast.measures.margin import Margin
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


__all__ = [
    "DEFAULT_MEASURES",
    "SUM_TOLERANCE",
    "SUM_TOLERANCE_0_1_0",
    "Margin",
    "Mass",
    "Measure",
    "MeasureInfo",
    "PredictionScore",
    "measure_named",
    "sum_tolerance",
]
