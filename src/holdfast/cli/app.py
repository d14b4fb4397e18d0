"""The command line: thin commands, one exit code per kind of refusal."""

import os
import sys
from collections.abc import Sequence

import click
import typer
from rich.console import Console

from holdfast.cli.certify import certify
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.export import export
from holdfast.cli.import_log import import_command
from holdfast.cli.report import report
from holdfast.cli.train import train
from holdfast.errors import HoldfastError
from holdfast.version import installed_version

INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    help="Certified confidence for any classifier: how low can an attacker within radius R push its average score?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
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


app.command("demo")(demo)
app.command("certify")(certify)
app.command("report")(report)
app.command("import")(import_command)
app.command("export")(export)
app.command("train")(train)
app.command("doctor")(doctor)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a refusal is a message on stderr, never a traceback."""
    console = Console(stderr=True, highlight=False)
    try:
        result = typer.main.get_command(app).main(
            None if arguments is None else list(arguments), prog_name="holdfast", standalone_mode=False
        )
    except HoldfastError as error:
        console.print(f"holdfast: {error}", style="red", markup=False, soft_wrap=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.print("holdfast: interrupted", style="red")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def main() -> None:
    """The ``holdfast`` program."""
    sys.exit(run())
