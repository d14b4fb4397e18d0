"""Mean bounds: bounds on the expectation of a score."""

from holdfast.means.empirical import EmpiricalMean
from holdfast.means.hoeffding import Hoeffding
from holdfast.means.mean import MeanBound

__all__ = ["EmpiricalMean", "Hoeffding", "MeanBound"]
