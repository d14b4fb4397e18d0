"""Sampling: from a model and inputs to counts of scores."""

from holdfast.sampling.engine import Answer, Engine, Question, Task
from holdfast.sampling.local import LocalEngine

__all__ = ["Answer", "Engine", "LocalEngine", "Question", "Task"]
