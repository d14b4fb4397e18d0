"""The command line: thin commands, one exit code per kind of refusal."""

import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType
from typing import Any

import typer

from holdfast.cli import options
from holdfast.cli.audit import audit
from holdfast.cli.certify import certify
from holdfast.cli.console import Terminal, note
from holdfast.cli.decide import decide
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.drift import drift
from holdfast.cli.examples import EXAMPLES
from holdfast.cli.recheck import recheck
from holdfast.cli.report import report
from holdfast.cli.runs import compact, export, import_command
from holdfast.cli.serve import serve
from holdfast.cli.train import train
from holdfast.cli.triage import triage
from holdfast.cli.verify import verify
from holdfast.errors import HoldfastError, ModelError, RunError, explain_missing_packages
from holdfast.version import installed_version

SIGNALLED = 128
INTERRUPTED = SIGNALLED + signal.SIGINT
_LIKE_CTRL_C = ("SIGTERM", "SIGHUP")
"""Whoever ends a service, a job or a terminal: what is finished is kept, as with Ctrl-C. Windows has no SIGHUP."""

app = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="\b\nExamples:\n  holdfast demo\n  holdfast certify --help",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {installed_version()}")
        raise typer.Exit


@app.callback()
def holdfast(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Certified confidence for any classifier: how low can an attacker within radius R push its average score?"""


def _refusing(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a refusal into a message on stderr and its exit code; never a traceback."""

    @wraps(command)
    def refusing(*args: object, **kwargs: object) -> None:
        try:
            with explain_missing_packages():
                command(*args, **kwargs)
        except HoldfastError as error:
            Terminal(stderr=True).print(f"holdfast: {error}", style="red", soft_wrap=True)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            Terminal(stderr=True).print(f"holdfast: {error}", style="red", soft_wrap=True)
            raise typer.Exit(RunError.exit_code) from error
        except SystemExit as error:  # no command's own
            said = f"holdfast: code that was run, such as the model's, ended the program ({error!r}); what was finished is kept"
            Terminal(stderr=True).print(said, style="red", soft_wrap=True)
            raise typer.Exit(ModelError.exit_code) from error
        except KeyboardInterrupt as error:
            Terminal(stderr=True).print("holdfast: interrupted", style="red")
            raise typer.Exit(INTERRUPTED) from error

    return refusing


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "certify": certify,
    "decide": decide,
    "recheck": recheck,
    "report": report,
    "audit": audit,
    "import": import_command,
    "export": export,
    "compact": compact,
    "verify": verify,
    "triage": triage,
    "drift": drift,
    "train": train,
    "serve": serve,
    "doctor": doctor,
}
for _name, _command in COMMANDS.items():
    _title = (_command.__doc__ or "").split("\n\n")[0]
    # Marked with \b, the lines stay as they are.
    _examples = "\n".join(("\b", "Examples:", *(f"  {example}" for example in EXAMPLES[_name])))
    app.command(_name, short_help=" ".join(_title.split()), epilog=_examples)(_refusing(options.read_numbers(_command)))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note_warning
            app(None if arguments is None else list(arguments), prog_name="holdfast")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0


def _note_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning in words, without the place in the code that gave it."""
    note(str(message))


def main() -> None:
    """The ``holdfast`` program: ends in the same way at Ctrl-C, SIGTERM and SIGHUP."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(ctrl_c):  # ignored, as in the background of a shell's script
            raise KeyboardInterrupt
        ctrl_c(number, frame)  # while it serves, the server's

    known = (signal.Signals[name] for name in _LIKE_CTRL_C if name in signal.Signals.__members__)
    # nohup ignores SIGHUP, and that stays so.
    taken = [each for each in known if signal.getsignal(each) is signal.SIG_DFL]
    try:
        for each in taken:
            signal.signal(each, interrupt)
        code = run()
    except KeyboardInterrupt:  # before a command began, or after it ended
        code = INTERRUPTED
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)  # while the interpreter ends, nobody catches what is raised
    sys.exit(SIGNALLED + received[0] if received and code == INTERRUPTED else code)
