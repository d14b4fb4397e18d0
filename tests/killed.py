"""A command in a process of its own that is killed before the k-th change that it makes in a folder."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.app import run as holdfast

_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")


def exit_code(arguments: Sequence[object], folder: Path, *, at: int | None = None) -> int:
    """What ``holdfast ARGUMENTS`` exits with, minus the signal that killed it; ``at`` counts the changes that it may make."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of Python 3.12, about threads: the child uses none of them
        child = os.fork()
    if child == 0:
        code = 70  # whatever is raised
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            if at is not None:
                sys.addaudithook(_killer(folder, at))
            code = holdfast([str(each) for each in arguments])
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killer(folder: Path, at: int) -> Callable[[str, tuple[Any, ...]], None]:
    made = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal made
        opened = event == "open" and isinstance(arguments[0], str | bytes | os.PathLike)
        writes = opened and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in _CHANGES) and os.fsdecode(arguments[0]).startswith(str(folder)):
            if made == at:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1

    return hook
