"""Write docs/commands.md from the commands themselves."""

from pathlib import Path
from typing import Any

import typer

from holdfast.cli.app import app
from holdfast.cli.examples import EXAMPLES

TARGET = Path(__file__).with_name("commands.md")


def document() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    lines = ["# Commands", "", "Written by `make docs` from the commands themselves; a test keeps it so.", ""]
    for name, command in group.commands.items():
        lines += [f"## holdfast {name}", "", (command.help or "").split("\f")[0].strip(), ""]
        lines += ["```console", *(f"$ {example}" for example in EXAMPLES[name]), "```", ""]
        lines += ["| argument or option | default | meaning |", "|---|---|---|"]
        lines += [_row(parameter) for parameter in command.params if parameter.name != "help"]
        lines.append("")
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    name = (
        parameter.name.upper()
        if parameter.param_type_name == "argument"
        else ", ".join([*parameter.opts, *parameter.secondary_opts])
    )
    default = "required" if parameter.required else "" if parameter.default in (None, ()) else str(parameter.default)
    return f"| `{name}` | {default} | {getattr(parameter, 'help', None) or ''} |"


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
