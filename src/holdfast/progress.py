"""A progress bar with rate and time left, for anything that takes longer than two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

OnDone = Callable[[int], None]
"""Told how much more work is done."""

_PATIENCE_S = 2.0


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


@contextmanager
def progress_bar(what: str, total: int, *, unit: str = "copies", show: bool | None = None) -> Iterator[ProgressLine]:
    """Yield what to report done work to; the bar appears on stderr after two seconds.

    ``show=None`` shows it if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield ProgressLine()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    try:
        yield _Bar(bar, what, total)
    finally:
        if bar.live.is_started:
            bar.stop()
