"""Bands: bounds on the distribution of a score, simultaneous over all thresholds."""

from holdfast.bands.band import Band, Empirical
from holdfast.bands.berk_jones import BerkJones
from holdfast.bands.dkw import DKW

__all__ = ["DKW", "Band", "BerkJones", "Empirical"]
