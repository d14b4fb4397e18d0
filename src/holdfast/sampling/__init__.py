"""Sampling: from a model and inputs to counts of scores."""

from holdfast.errors import InvalidArgument
from holdfast.sampling.engine import Engine
from holdfast.sampling.local import Local
from holdfast.sampling.requests import (
    CertifyRequest,
    ClassesRequest,
    DecideRequest,
    EstimateRequest,
    RadiusRequest,
    Request,
    SelectionRequest,
    VotesRequest,
)

__all__ = [
    "CertifyRequest",
    "ClassesRequest",
    "DecideRequest",
    "Engine",
    "EstimateRequest",
    "Local",
    "RadiusRequest",
    "Request",
    "SelectionRequest",
    "VotesRequest",
    "as_engine",
]


def as_engine(engine: Engine | None) -> Engine:
    """Who runs the copies; this machine, unless told otherwise."""
    if engine is not None and not isinstance(engine, Engine):
        raise InvalidArgument(f"engine must be Local() or RayCluster(workers=...), got {engine!r}")
    return Local() if engine is None else engine
