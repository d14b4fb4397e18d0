"""Mean bounds: bounds on the expectation of a score."""

from holdfast.means.bernstein import EmpiricalBernstein
from holdfast.means.betting import Betting
from holdfast.means.hoeffding import Hoeffding
from holdfast.means.mean import EmpiricalMean, MeanBound, View

__all__ = ["Betting", "EmpiricalBernstein", "EmpiricalMean", "Hoeffding", "MeanBound", "View"]
