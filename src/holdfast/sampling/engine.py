"""The seam between certificates and compute: who runs the noisy copies, and what comes back.

A task names a span of one input's noise. Its result depends on nothing but the task, the seed and the model, and the
results of adjoining spans add up to the result of the whole: so a span may be cut, run anywhere, in
any order, more than once if a machine is lost, and merged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.progress import OnDone


@dataclass(frozen=True, eq=False)
class Task:
    """Copies ``start`` to ``stop`` of the input ``x``; spans that start with a block of noise waste none of it.

    ``seed`` keys the noise in place of the engine's own, so that questions with different secrets can share batches.
    """

    index: int
    x: Tensor
    start: int
    stop: int
    target: int = 0
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """Which class, from ``n0`` copies of the input ``x``, and how sure is it, from ``n`` others?"""

    index: int
    x: Tensor
    n0: int
    n: int


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of a question, and how long it took."""

    selection: Selection
    evidence: Evidence
    seconds: float


class Engine(ABC):
    """Runs tasks. One result per task, in the tasks' order."""

    @abstractmethod
    def answer(self, questions: Iterable[Question], *, on_copies: OnDone) -> Iterator[list[Answer]]:
        """Answers in the questions' order, a few at a time as they are finished; questions are asked for as needed."""

    @abstractmethod
    def select(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Selection]:
        """Average scores of all classes, over selection noise; ``target`` plays no role."""

    @abstractmethod
    def estimate(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Evidence]:
        """Votes, scores and margins of each task's target class, over estimation noise."""

    @abstractmethod
    def count_classes(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[ClassCounts]:
        """Scores of every class and the target's lead over each, over estimation noise."""
