"""Spans of noise: the unit of work between certificates and compute.

A span's counts depend on nothing but the span, the noise and the model, and the counts of adjoining spans add up to those
of the whole: so a span may be cut, run anywhere, in any order, more than once if a machine is lost, and merged.
"""

from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.noise import Stage

Counts = Selection | Evidence | ClassCounts


class Counting(Enum):
    """What is counted of a span's copies, and over which noise."""

    SELECTION = "average scores of all classes, to choose one"
    VOTES = "votes for all classes, to choose one as Cohen et al. do"
    EVIDENCE = "votes for the target class, and a histogram of each measure"
    CLASSES = "a histogram of every class's score and of the target's lead over each"

    @property
    def stage(self) -> Stage:
        """Copies that a class is chosen from are never used again."""
        return Stage.SELECTION if self in (Counting.SELECTION, Counting.VOTES) else Stage.ESTIMATION


@dataclass(frozen=True, eq=False)
class NoiseSpan:
    """Copies ``start`` to ``stop`` of the input ``x``, whose noise ``seed`` and ``index`` key.

    ``target`` is the class that is counted, or the selection span that chooses it in the same job.
    """

    x: Tensor
    seed: int
    index: int
    counting: Counting
    start: int
    stop: int
    target: "int | NoiseSpan" = 0

    @property
    def copies(self) -> int:
        """How many there are."""
        return self.stop - self.start
