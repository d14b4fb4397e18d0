"""Scores of noisy copies: what every certificate is computed from.

Two forms, one meaning. :class:`ScoreSamples` keeps every value in arrival order; :class:`ScoreHistogram` keeps counts on
a fixed grid and merges by addition. Both answer the only question a bound asks: at which thresholds, how many samples
reach them? (:class:`Exceedances`.)
"""

from holdfast.scores.exceedances import Exceedances, Scores
from holdfast.scores.histogram import OccupiedCounters, ScoreHistogram
from holdfast.scores.order import RandomOrder
from holdfast.scores.samples import ScoreSamples

__all__ = ["Exceedances", "OccupiedCounters", "RandomOrder", "ScoreHistogram", "ScoreSamples", "Scores"]
