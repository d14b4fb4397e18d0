"""What training minimises."""

from holdfast.train.objectives.certified import Certified
from holdfast.train.objectives.consistency import Consistency
from holdfast.train.objectives.objective import Objective
from holdfast.train.objectives.plain import Plain
from holdfast.train.objectives.smoothadv import SmoothAdv

__all__ = ["Certified", "Consistency", "Objective", "Plain", "SmoothAdv"]
