"""Confidence measures: what is averaged over the noise."""

from holdfast.measures.margin import Margin
from holdfast.measures.measure import Measure
from holdfast.measures.prediction_score import PredictionScore

__all__ = ["Margin", "Measure", "PredictionScore"]
