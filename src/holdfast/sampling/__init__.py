"""Sampling: from a model and inputs to counts of scores."""

from holdfast.sampling.engine import Engine
from holdfast.sampling.local import Local
from holdfast.sampling.requests import CertifyRequest, DecideRequest, RadiusRequest, Request

__all__ = ["CertifyRequest", "DecideRequest", "Engine", "Local", "RadiusRequest", "Request"]
