"""What commands say, and the single files that they write."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from holdfast.errors import RunError
from holdfast.files import why_unwritable
from holdfast.printable import printable


@final
class Terminal(Console):
    """What commands write to: names of others are shown as they are, with no escape, markup or emoji in them obeyed."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is printed passes here, in pieces of one style; their lines are the caller's own."""
        for text, style, control in super().render(renderable, options):
            shown = text if control else "\n".join(map(printable, text.split("\n")))
            yield Segment(shown, style, control)


def say(text: str, *, style: str | None = None) -> None:
    """A line of the answer; a narrow terminal breaks it by itself."""
    Terminal().print(text, style=style, soft_wrap=True)


def note(text: str) -> None:
    """Something that a person should know beside the answer, on stderr."""
    Terminal(stderr=True).print(f"note: {text}", style="yellow", soft_wrap=True)


def report_command(run: Path) -> str:
    """What to type next."""
    return f"holdfast report {shlex.quote(str(run))}"


def check_new_file(out: Path) -> None:
    """Refuse a file that exists, or whose folder does not, before any work is done."""
    if out.exists():
        raise RunError(f"{out} exists already and is left as it is; choose another --out, or move it away first")
    if not out.absolute().parent.is_dir():
        raise RunError(f"the folder of {out} does not exist; create it first, or choose another --out")
    check_place(out)


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be written, before any work is done."""
    fault = why_unwritable(path)
    if fault:
        raise RunError(f"{path} cannot be written: {fault}; choose another place")


def write_new_file(out: Path, writer: Callable[[Path], object]) -> None:
    """Write a file in one step: it is there as a whole, or not at all."""
    from holdfast.runs.folder import write_output

    write_output(out, writer)
