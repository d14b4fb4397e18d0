"""What commands say, and the single files that they write."""

import shlex
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from holdfast.errors import RunError


def say(text: str, *, style: str | None = None) -> None:
    """A line of the answer; a narrow terminal breaks it by itself."""
    Console(highlight=False).print(text, style=style, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """Something that a person should know beside the answer, on stderr."""
    console = Console(stderr=True, highlight=False)
    console.print(f"note: {text}", style="yellow", markup=False, soft_wrap=True)


def report_command(run: Path) -> str:
    """What to type next."""
    return f"holdfast report {shlex.quote(str(run))}"


def check_new_file(out: Path) -> None:
    """Refuse a file that exists, or whose folder does not, before any work is done."""
    if out.exists():
        raise RunError(f"{out} exists already and is left as it is; choose another --out, or move it away first")
    if not out.absolute().parent.is_dir():
        raise RunError(f"the folder of {out} does not exist; create it first, or choose another --out")


def write_new_file(out: Path, writer: Callable[[Path], object]) -> None:
    """Write a file in one step: it is there as a whole, or not at all."""
    from holdfast.runs.folder import write_output

    write_output(out, writer)
