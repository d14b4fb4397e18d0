"""Progress with rate and time left, for anything that takes longer than two seconds.

A bar in a terminal and in a notebook; in a pipe or a file, where it was asked for, a line now and then.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

OnDone = Callable[[int], None]
"""Told how much more work is done."""

_PATIENCE_S = 2.0
_REFRESH_S = 0.25
_LONGEST_S = 60.0
"""Between two lines in a pipe; they begin closer together."""


class ProgressLine:
    """What reports done work, and says what else takes a while; by itself it shows nothing."""

    def __call__(self, done: int) -> None:
        """So much more is done."""

    def say(self, text: str) -> None:
        """What is being done instead of the work; the empty string when that is over."""


class _Bar(ProgressLine):
    def __init__(self, bar: Progress, what: str, total: int) -> None:
        self._bar, self._what, self._start = bar, what, time.monotonic()
        self._task = bar.add_task(what, total=total)

    def __call__(self, done: int) -> None:
        self._bar.update(self._task, advance=done)
        if time.monotonic() - self._start > _PATIENCE_S:
            self._bar.start()

    def say(self, text: str) -> None:
        self._bar.update(self._task, description=text or self._what)
        if text:
            self._bar.start()


class _Rate(ProgressColumn):
    """Work per second, in the bar's unit."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Thousands separated; a dash before there is anything to say."""
        return Text(f"{task.speed:,.0f} {self._unit}/s" if task.speed else f"- {self._unit}/s", style="dim")


def ignore(*_: object) -> None:
    """No-op callback."""


def format_time(seconds: float) -> str:
    """Rounded to what matters: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


class _Words(ProgressLine, ABC):
    """How far the work is, in words; where they go, a notebook and a pipe say."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._start, self._done, self._next = time.monotonic(), 0, _PATIENCE_S

    def __call__(self, done: int) -> None:
        self._done += done
        if self._elapsed >= self._next:
            self._next = self._after(self._elapsed)
            self._show(self._words)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    @property
    def _words(self) -> str:
        rate = self._done / max(self._elapsed, 1e-9)
        said = f"{self._what}: {self._done:,} of {self._total:,} {self._unit}"
        if not self._done:
            return said
        return f"{said}, {rate:,.0f} {self._unit}/s, {format_time(max(0, self._total - self._done) / rate)} left"

    @abstractmethod
    def end(self) -> None:
        """The work is over, or given up."""

    @abstractmethod
    def _after(self, elapsed: float) -> float:
        """When to speak next, after speaking now."""

    @abstractmethod
    def _show(self, words: str) -> None:
        """Say it."""


class _Lines(_Words):
    """Lines on stderr, the later the rarer, and one when it is over."""

    def say(self, text: str) -> None:
        if text:
            self._show(f"{self._what}: {text}")

    def end(self) -> None:
        self._show(f"{self._what}: {self._done:,} of {self._total:,} {self._unit} in {format_time(self._elapsed)}")

    def _after(self, elapsed: float) -> float:
        return elapsed + min(elapsed, _LONGEST_S)

    def _show(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)


class _NotebookBar(_Words):
    """A bar in the cell's output, which is gone when the work is over; plain HTML, so that no widgets are needed."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        super().__init__(what, total, unit)
        self._cell: Any = None

    def say(self, text: str) -> None:
        if text or self._cell is not None:
            self._show(f"{self._what}: {text}" if text else self._words)

    def end(self) -> None:
        if self._cell is not None:
            self._cell.update({"text/html": "", "text/plain": ""}, raw=True)

    def _after(self, elapsed: float) -> float:
        return elapsed + _REFRESH_S

    def _show(self, words: str) -> None:
        from IPython.display import display

        bar = f'<progress value="{self._done}" max="{max(1, self._total)}" style="vertical-align:middle"></progress>'
        shown = {"text/html": f"<div>{bar} {escape(words)}</div>", "text/plain": words}
        if self._cell is None:
            self._cell = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._cell.update(shown, raw=True)


@contextmanager
def progress_bar(what: str, total: int, *, unit: str = "copies", show: bool | None = None) -> Iterator[ProgressLine]:
    """Yield what to report done work to; the bar appears after two seconds.

    ``show=None`` shows it in a notebook, and if stderr is a terminal.
    """
    console = Console(stderr=True)
    if not (console.is_jupyter or sys.stderr.isatty() if show is None else show):
        yield ProgressLine()
        return
    if console.is_jupyter or not console.is_terminal:
        words = _NotebookBar(what, total, unit) if console.is_jupyter else _Lines(what, total, unit)
        try:
            yield words
        finally:
            words.end()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    try:
        yield _Bar(bar, what, total)
    finally:
        if bar.live.is_started:
            bar.stop()
