"""Bands: bounds on the distribution of a score, simultaneous over all thresholds."""

from holdfast.bands.band import Band
from holdfast.bands.berk_jones import BerkJones
from holdfast.bands.dkw import DKW
from holdfast.bands.empirical import Empirical

__all__ = ["DKW", "Band", "BerkJones", "Empirical"]
