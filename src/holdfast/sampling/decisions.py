"""Many questions decided at once: whenever one is, the next input takes its place, so that batches stay full."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from holdfast.progress import ignore
from holdfast.sampling.engine import Engine, Task
from holdfast.sequential import Decision, SequentialTest

_OPEN = 64


@dataclass(frozen=True, eq=False)
class Asked:
    """An input, the number that keys its noise, and its place among the inputs."""

    position: int
    index: int
    x: Tensor


@dataclass(frozen=True, eq=False)
class Decided:
    """What came of a question about the class ``predicted``."""

    position: int
    predicted: int
    decision: Decision


@dataclass(frozen=True, eq=False)
class _Open:
    """A question on the way to its decision."""

    asked: Asked
    predicted: int
    deciding: SequentialTest

    def next_span(self) -> Task:
        """The copies it wants next."""
        drawn = self.deciding.drawn
        return Task(self.asked.index, self.asked.x, drawn, drawn + self.deciding.next_batch, self.predicted)


def decide_all(
    engine: Engine, inputs: Iterable[Asked], question: Callable[[], SequentialTest], *, measure: str, n0: int
) -> Iterator[Decided]:
    """Decide the same question about every input, in the order in which they are settled."""
    waiting = iter(inputs)
    open_ones: list[_Open] = []
    while True:
        fresh = list(itertools.islice(waiting, _OPEN - len(open_ones)))
        if fresh:
            chosen = engine.select([Task(each.index, each.x, 0, n0) for each in fresh], on_copies=ignore)
            open_ones += [
                _Open(each, selection.predicted, question()) for each, selection in zip(fresh, chosen, strict=True)
            ]
        # A question may be settled before its first sample: nothing reaches that far.
        playing = [each for each in open_ones if each.deciding.decision is None]
        if playing:
            found = engine.estimate([each.next_span() for each in playing], on_copies=ignore)
            for each, evidence in zip(playing, found, strict=True):
                each.deciding.update(evidence[measure])
        elif not open_ones:
            return
        for each in open_ones:
            if each.deciding.decision is not None:
                yield Decided(each.asked.position, each.predicted, each.deciding.decision)
        open_ones = [each for each in open_ones if each.deciding.decision is None]
