"""How much of the machine a file of strangers may take, and which environment variable says otherwise.

A small file can say that it is a large one. What it says is compared with these limits before room is made for it.
"""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

from holdfast.errors import HoldfastError, InvalidEnvironment

_TIMES = 32
"""A file may become so many times as large as it is on the disk, whatever :data:`EXPANDED` says."""


@final
@dataclass(frozen=True)
class Budget:
    """A limit in a unit, and the environment variable that replaces it."""

    variable: str
    usual: int
    unit: str

    @property
    def limit(self) -> int:
        """The one in force."""
        text = os.environ.get(self.variable) or str(self.usual)
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise InvalidEnvironment(f"{self.variable} must be a whole number of {self.unit}, got {text[:40]!r}")
        return int(text)

    def check(self, path: Path, found: int, refuse: type[HoldfastError]) -> None:
        """Refuse a file that would take more."""
        if found > self.limit:
            raise refuse(
                f"{path} has {found:,} {self.unit}, more than the {self.limit:,} that are read; if you trust the file, set the "
                f"environment variable {self.variable}={found}"
            )


PIXELS = Budget("HOLDFAST_MAX_PIXELS", 50_000_000, "pixels")
"""Of a picture."""
ROWS = Budget("HOLDFAST_MAX_ROWS", 10_000_000, "rows")
"""Of a table, or images of a dataset that is read as a whole."""
EXPANDED = Budget("HOLDFAST_MAX_EXPANDED_BYTES", 2**27, "bytes when it is unpacked")
"""Of a file that is small on the disk: one of a megabyte may say that it is a terabyte."""
TEXT = Budget("HOLDFAST_MAX_TEXT_BYTES", 2**25, "bytes of text")
"""Of text, which takes many times the room when it is taken apart."""


def check_expansion(path: Path, found: int, refuse: type[HoldfastError]) -> None:
    """Refuse a file that unpacks to so many bytes, if that is much and many times its size."""
    if found > _TIMES * path.stat().st_size:
        EXPANDED.check(path, found, refuse)


def check_archive(path: Path, refuse: type[HoldfastError]) -> None:
    """Refuse a ZIP archive that unpacks to too much. Readers give no more of a member than is said here."""
    with zipfile.ZipFile(path) as archive:
        found = sum(member.file_size for member in archive.infolist())
    check_expansion(path, found, refuse)


def read_text(path: Path, refuse: type[HoldfastError]) -> bytes:
    """The bytes of a file of text, read no further than the limit."""
    with path.open("rb") as file:
        content = file.read(TEXT.limit + 1)
        if len(content) > TEXT.limit:
            TEXT.check(path, os.fstat(file.fileno()).st_size, refuse)
    return content
