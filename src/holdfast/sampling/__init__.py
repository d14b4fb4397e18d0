"""Sampling: from a model and inputs to counts of scores."""

from holdfast.sampling.compute import Compute, Local
from holdfast.sampling.engine import Answer, Engine, Question, Task
from holdfast.sampling.local import LocalEngine

__all__ = ["Answer", "Compute", "Engine", "Local", "LocalEngine", "Question", "Task"]
