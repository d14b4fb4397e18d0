"""Whether two threads can ask a module at once: they are made to take turns at every step, and must not notice."""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Condition, Thread
from types import FrameType
from typing import Any

import torch
from torch import Tensor

_PATIENCE = 5.0
"""Seconds that a thread waits for its turn; the other may itself be waiting, for a lock that this one holds."""
_MOST_TURNS = 50_000
"""About a second; what runs longer than that goes on without taking turns."""
_TORCHS = str(Path(torch.__file__).parent) + os.sep
_PYTHONS = str(Path(os.__file__).parent) + os.sep
_LEADS = (0, 2, 10)
"""By how many steps one thread is ahead of the other: their ways may differ a little."""

Ask = Callable[[Tensor], Tensor]


def answers_together(ask: Ask, batches: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The answers to two batches by two threads that change places before every step of a module's Python code, a few times.

    What one thread leaves in a place that both can reach, and reads again some steps later, the other has replaced by then.

    Raises:
        Exception: what asking raised.
    """
    for lead in _LEADS:
        yield _in_threads(ask, batches, _Turns(len(batches), lead))


def answers_apart(ask: Ask, batches: Sequence[Tensor]) -> list[Tensor]:
    """The same, each thread alone."""
    return [_in_threads(ask, [batch], _Turns(1, 0))[0] for batch in batches]


class _Turns:
    """Whose turn it is among some threads; those that have finished are passed over."""

    def __init__(self, threads: int, lead: int) -> None:
        self._changed = Condition()
        self._waiting = list(range(threads))
        self._strict = threads > 1
        self._taken = 0
        self._lead = lead

    def begin(self, me: int) -> None:
        with self._changed:
            self._await(me)

    def pass_on(self, me: int) -> None:
        if not self._strict:
            return
        with self._changed:
            self._taken += 1
            if self._taken > _MOST_TURNS:
                self._strict = False
            if self._lead > 0:
                self._lead -= 1
            elif self._waiting[0] == me:
                self._waiting.append(self._waiting.pop(0))
                self._changed.notify_all()
            self._await(me)

    def end(self, me: int) -> None:
        with self._changed:
            self._waiting.remove(me)
            self._changed.notify_all()

    def _await(self, me: int) -> None:
        if not self._changed.wait_for(lambda: not self._strict or self._waiting[0] == me, timeout=_PATIENCE):
            self._strict = False
            self._changed.notify_all()


@cache
def _is_the_modules(file: str) -> bool:
    """Whether code of this file may be a module's: it is not torch's, Python's, or made up."""
    if file.startswith(("<frozen", _TORCHS)):
        return False
    return not file.startswith(_PYTHONS) or "site-packages" in file


def _in_threads(ask: Ask, batches: Sequence[Tensor], turns: _Turns) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    failed: list[Exception] = []

    def work(me: int, batch: Tensor) -> None:
        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if not _is_the_modules(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes = True
            if event in ("line", "opcode"):
                turns.pass_on(me)
            return trace

        turns.begin(me)
        try:
            sys.settrace(trace)
            found[me] = ask(batch)
        except Exception as error:  # the module is foreign code
            failed.append(error)
        finally:
            sys.settrace(None)
            turns.end(me)

    # What the collector calls is done by one thread alone, which would fall behind.
    collecting = gc.isenabled()
    gc.disable()
    threads = [Thread(target=work, args=each, daemon=True) for each in enumerate(batches)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # an interruption included
        if collecting:
            gc.enable()
    if failed:
        raise failed[0]
    return [found[me] for me in range(len(batches))]
