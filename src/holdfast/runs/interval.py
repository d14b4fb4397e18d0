"""How far a share of a sample may be from the share of whatever it was drawn from."""

from holdfast.certificates.proportions import LEVEL, ShareIntervals, share_intervals

__all__ = ["LEVEL", "ShareIntervals", "share_intervals"]
