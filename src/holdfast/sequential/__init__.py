"""Early stopping: draw only as many samples as the question needs."""

from holdfast.sequential.decide import Decision, SequentialTest, decide
from holdfast.sequential.radius import AdaptiveRadius, RadiusSearch, adaptive_radius

__all__ = ["AdaptiveRadius", "Decision", "RadiusSearch", "SequentialTest", "adaptive_radius", "decide"]
