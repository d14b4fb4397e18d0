"""A ledger: a file of JSON lines, one for each recheck, to keep under version control beside the network."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import RunError


def check_ledger(path: Path) -> None:
    """Refuse a file that a line cannot be added to, before any work is done; one that is not there yet is fine."""
    if not path.absolute().parent.is_dir():
        raise RunError(f"the folder of {path} does not exist; create it first, or choose another --ledger")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise RunError(f"{path} cannot be written to; change its permissions, or choose another --ledger")
    if not path.exists():
        return
    if not path.is_file():
        raise RunError(f"{path} is not a file; choose another --ledger")
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
        whole = lines[-1] == "" and all(isinstance(json.loads(line), dict) for line in lines[-2:-1])
    except ValueError:
        whole = False
    if not whole:
        raise RunError(
            f"the last line of {path} is not a complete line of JSON, so nothing is added to it: restore the file from "
            f"version control or remove that line, or choose another --ledger"
        )


def append_line(path: Path, entry: Mapping[str, Any]) -> None:
    """Add one line in one write; whatever is in the file stays as it is."""
    check_ledger(path)
    line = (json.dumps(entry, allow_nan=False) + "\n").encode("utf-8")
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        before = os.fstat(file).st_size
        written = os.write(file, line)
        if written != len(line):
            if os.fstat(file).st_size == before + written:  # nobody else has added a line meanwhile
                os.ftruncate(file, before)
            raise RunError(
                f"no space left to add a line to {path}; the lines before it are whole. Free some space and try again"
            )
        os.fsync(file)
    finally:
        os.close(file)
