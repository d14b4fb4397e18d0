"""How long compiling took, kept with the compiler's own results: it is shorter where these are found."""

import getpass
import hashlib
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from holdfast.files import write_file

_ENVIRONMENT = "TORCHINDUCTOR_CACHE_DIR"
_AGAIN = 0.5
"""Of the seconds of the first time, as long as nothing better is known: measured from 0.3 to 0.5."""


@dataclass(frozen=True)
class CompileTime:
    """Of one network for inputs of one shape, on one kind of device; the file goes when torch's folder does."""

    path: Path | None

    @classmethod
    def of(cls, structure: bytes | None, *what: object) -> "CompileTime":
        """Of a network with this structure; one that cannot be compared has none."""
        if structure is None:
            return cls(None)
        name = hashlib.sha256(structure + repr((torch.__version__, *what)).encode()).hexdigest()
        return cls(_folder() / "holdfast" / name)

    @property
    def seconds(self) -> float | None:
        """What it is expected to take now; None if it was never done here."""
        if self.path is None:
            return None
        try:
            return float(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def remember(self, seconds: float) -> None:
        """It took so long; a folder that cannot be written to is no reason to stop."""
        if self.path is None:
            return
        expected = seconds * (_AGAIN if self.seconds is None else 1.0)
        with suppress(OSError):
            write_file(self.path, lambda file: file.write_text(f"{expected:.3f}", encoding="ascii"))


def _folder() -> Path:
    """Where torch's compiler keeps its results."""
    named = os.environ.get(_ENVIRONMENT)
    if named:
        return Path(named)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without names
        user = "none"
    return Path(tempfile.gettempdir()) / f"torchinductor_{re.sub(r'[^0-9A-Za-z_.-]', '_', user)}"
