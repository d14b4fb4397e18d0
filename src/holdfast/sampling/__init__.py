"""Sampling: from a model and inputs to counts of scores."""

from holdfast.sampling.engine import Engine, Task
from holdfast.sampling.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "Task"]
