"""Who asks, and the secret that the noise of answers follows from."""

import hashlib
import logging
import os
import re
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from holdfast.budgets import read_text
from holdfast.errors import HoldfastError, InvalidArgument, reading
from holdfast.files import make_folder

_SHORTEST = 16
_SENT = "^[!-~]*$"
"""What every client sends as it is written: ASCII, without spaces."""
_OTHERS = 0o077
_log = logging.getLogger("holdfast.service")


@dataclass(frozen=True)
class Caller:
    """Who asks: the name of a key, or an address. ``fresh`` says whether they may ask for noise that was never drawn before."""

    name: str
    fresh: bool = False


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    key: str = Field(min_length=_SHORTEST, pattern=_SENT)
    fresh: bool = False


_FILE = TypeAdapter(dict[str, _Entry], config=ConfigDict(hide_input_in_errors=True))


@final
class Keys:
    """The keys of callers: one that is given, and those of a file, which is read at each request.

    **Guarantee**: a key that was taken out of the file is refused from the next request on. A file that cannot be read any
    more lets nobody in.
    """

    def __init__(self, key: str | None = None, path: Path | None = None) -> None:
        if key is not None and not (len(key) >= _SHORTEST and re.fullmatch(_SENT, key)):
            raise InvalidArgument(
                f"an API key must have at least {_SHORTEST} characters of ASCII and no spaces, got {len(key)} characters; "
                f"python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
            )
        self._given = {} if key is None else {_digest(key): Caller("key")}
        self._path = path
        self.needed = key is not None or path is not None
        if self.needed and not (self._in_file() or self._given):
            raise InvalidArgument(f"{path} has no keys, so nobody could ask; write one there, or leave the file out")

    def owner(self, key: str) -> Caller | None:
        """Whose key this is."""
        try:
            # A look-up by digest: how long it takes says nothing about any key.
            return {**self._in_file(), **self._given}.get(_digest(key))
        except HoldfastError as error:
            _log.error("nobody is let in: %s", error)
            return None

    def _in_file(self) -> dict[bytes, Caller]:
        if self._path is None:
            return {}
        remedy = 'expected TOML: for each caller [NAME], key = "..." and perhaps fresh = true'
        with reading(self._path, InvalidArgument, "cannot be read as keys", remedy=remedy):
            text = _private(self._path).decode()
            found = _FILE.validate_python(tomllib.loads(text))
            owners = {_digest(each.key): Caller(name, each.fresh) for name, each in found.items()}
            if len(owners) < len(found):
                raise InvalidArgument(f"{self._path} gives two callers the same key; give each its own")
            return owners


def read_secret(path: Path) -> bytes:
    """The secret in a file, which is made if it is not there."""
    with reading(
        path, InvalidArgument, "cannot be read as a secret", remedy="give a file of 32 bytes or more, or none"
    ):
        if not path.exists():
            make_folder(path.parent)
            path.touch(0o600, exist_ok=False)
            path.write_bytes(secrets.token_bytes(32))
        secret = _private(path)
        if len(secret) < 32:
            raise InvalidArgument(f"{path} must have at least 32 bytes, got {len(secret)}; give another file, or none")
        return secret


def _private(path: Path) -> bytes:
    content = read_text(path, InvalidArgument)  # which says if it is a folder
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        raise InvalidArgument(f"{path} is open to other users of this machine; run: chmod 600 {path}")
    return content


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
