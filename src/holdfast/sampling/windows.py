"""A few inputs at a time: batches are shared among them, and what is finished is handed on before long."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator

from holdfast.models import Model
from holdfast.progress import OnDone
from holdfast.sampling.engine import Answer, Engine, Question, Task

_MOST = 32
_SECONDS = 10.0
_GROWTH = 4
_FIRST = 2**14
_FIRST_OPERATIONS = {"cpu": 2e11, "cuda": 1e14}
"""A second or a few."""


def in_windows(
    answered: Callable[[list[Question]], list[Answer]], questions: Iterable[Question], at_first: int = _FIRST
) -> Iterator[list[Answer]]:
    """Answers to a window of inputs at a time.

    A window is as many inputs as take about ten seconds, which is what a crash costs; the first one is small, since
    nothing is known yet: as many as have ``at_first`` copies together.
    """
    first, waiting = itertools.tee(questions)
    size = max(1, min(_MOST, at_first // next((each.n for each in first), 1)))
    del first  # or it would keep every question
    while window := list(itertools.islice(waiting, size)):
        began = time.monotonic()
        yield answered(window)
        each = (time.monotonic() - began) / len(window)
        size = max(1, min(_MOST, _GROWTH * size, int(_SECONDS / max(each, 1e-9))))


def first_copies(model: Model) -> int:
    """How many copies are a matter of seconds, to begin with."""
    most = _FIRST_OPERATIONS.get(model.device.type, float("inf"))
    return int(min(_FIRST, most / model.work)) if model.work else _FIRST


def answers(engine: Engine, window: list[Question], *, on_copies: OnDone) -> list[Answer]:
    """Selection, then estimation of the chosen classes."""
    began = time.monotonic()
    chosen = engine.select([Task(each.index, each.x, 0, each.n0) for each in window], on_copies=on_copies)
    found = engine.estimate(
        [
            Task(each.index, each.x, 0, each.n, selection.predicted)
            for each, selection in zip(window, chosen, strict=True)
        ],
        on_copies=on_copies,
    )
    seconds = (time.monotonic() - began) / len(window)
    return [Answer(selection, evidence, seconds) for selection, evidence in zip(chosen, found, strict=True)]
