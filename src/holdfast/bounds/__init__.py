"""Bounds: the paper's theorems, from score samples to curves in the radius."""

from holdfast.bounds.best_of import BestOf
from holdfast.bounds.bound import DEFAULT_METHOD, bound, bound_many
from holdfast.bounds.cdf import CDF
from holdfast.bounds.curve import Curve, Curves
from holdfast.bounds.method import Method
from holdfast.bounds.naive import Naive
from holdfast.bounds.star import Star
from holdfast.bounds.tangents import Tangent, Tangents

__all__ = [
    "CDF",
    "DEFAULT_METHOD",
    "BestOf",
    "Curve",
    "Curves",
    "Method",
    "Naive",
    "Star",
    "Tangent",
    "Tangents",
    "bound",
    "bound_many",
]
