"""Jobs: pieces of work that travel to a worker whole, and whose results merge."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from holdfast.progress import ignore
from holdfast.sampling.engine import Engine, Question, Task
from holdfast.sampling.windows import answers


class Job(ABC):
    """Something an engine can do, anywhere, and more than once if a worker is lost."""

    @property
    @abstractmethod
    def copies(self) -> int:
        """How many noisy copies it takes."""

    @abstractmethod
    def run(self, engine: Engine) -> list[Any]:
        """One result for each task or question."""


@dataclass(frozen=True, eq=False)
class TaskJob(Job):
    """Spans of some inputs' copies."""

    tasks: tuple[Task, ...]

    @property
    def copies(self) -> int:
        """Those of all its spans."""
        return sum(task.stop - task.start for task in self.tasks)


class Selecting(TaskJob):
    """Average scores of all classes."""

    def run(self, engine: Engine) -> list[Any]:
        """A selection each."""
        return engine.select(self.tasks, on_copies=ignore)


class Estimating(TaskJob):
    """Votes, scores and margins of the target class."""

    def run(self, engine: Engine) -> list[Any]:
        """Evidence for each."""
        return engine.estimate(self.tasks, on_copies=ignore)


class CountingClasses(TaskJob):
    """Scores of every class."""

    def run(self, engine: Engine) -> list[Any]:
        """Class counts for each."""
        return engine.count_classes(self.tasks, on_copies=ignore)


@dataclass(frozen=True, eq=False)
class Answering(Job):
    """A few whole inputs, from the choice of the class to the evidence for it."""

    questions: tuple[Question, ...]

    @property
    def copies(self) -> int:
        """Selection and estimation copies of all of them."""
        return sum(each.n0 + each.n for each in self.questions)

    def run(self, engine: Engine) -> list[Any]:
        """An answer each."""
        return answers(engine, list(self.questions), on_copies=ignore)
