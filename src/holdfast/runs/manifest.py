"""The manifest of a run: the size and the SHA-256 digest of every file it consists of."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.budgets import read_text
from holdfast.errors import RunError, reading

MANIFEST = "manifest.json"
CONFIG = "run.json"
SPOT_CHECK = "spot_check.npz"
FORMAT = 1
EVIDENCE = ("certificates/*.parquet", "imported.parquet", SPOT_CHECK)
"""What is written once; all that is there must be listed."""
EXPORTS = "exports/*.tsv"


@dataclass(frozen=True)
class Digest:
    """Size and SHA-256 of a file."""

    size: int
    sha256: str

    def __post_init__(self) -> None:
        if type(self.size) is not int or type(self.sha256) is not str:
            raise TypeError(f"a digest is a size and a SHA-256, got {self.size!r} and {self.sha256!r}")

    @classmethod
    def of(cls, content: bytes) -> "Digest":
        """Of what was read or is to be written."""
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> "Digest":
        """Of a file, read piece by piece."""
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(file.tell(), found)


@dataclass(frozen=True)
class Manifest:
    """What a run consists of, by file name. Figures, the lock and the signature are no part of it.

    Guarantee:
        A run that agrees with its manifest has the bytes that were written, unless both were rewritten together (or somebody
        found two contents of one SHA-256 digest). A signature of the manifest excludes that.
    """

    files: Mapping[str, Digest]

    @classmethod
    def of(cls, path: Path, *, config: bytes) -> "Manifest":
        """Of all that is in a folder now, with the configuration that is about to be written."""
        names = sorted({*_evidence(path), *_names(path, EXPORTS)})
        return cls({CONFIG: Digest.of(config), **{name: Digest.of_file(path / name) for name in names}})

    @classmethod
    def read(cls, path: Path) -> "Manifest | None":
        """That of a folder; None if it has none. One that was not written just so is refused."""
        if not (path / MANIFEST).exists():
            return None
        wrong = "was changed: it is no list of digests"
        with reading(path / MANIFEST, RunError, wrong, remedy="restore it from a copy"):
            text = read_text(path / MANIFEST, RunError)
            files = json.loads(text)["files"]
            found = cls({name: Digest(**each) for name, each in files.items()})
        if found.text() != text:
            raise RunError(
                f"{path / MANIFEST} was changed: it is not written as Holdfast writes it; restore it from a copy"
            )
        return found

    def text(self) -> bytes:
        """As it is written, and in no other way."""
        files = {name: asdict(each) for name, each in self.files.items()}
        return (json.dumps({"format": FORMAT, "files": files}, indent=2) + "\n").encode()

    def differences(self, path: Path, *, config: bytes, finished: bool) -> list[str]:
        """What is not as it was written, in words.

        An unfinished run has a manifest of what was finished when it was last interrupted: since then evidence came, and
        none was changed or went.
        """
        evidence = _evidence(path)
        listed = self.files if finished else {name: each for name, each in self.files.items() if _is_evidence(name)}
        found = [said for name, each in listed.items() if (said := _difference(path, name, each, config))]
        if finished:
            found += [f"{name} is not in {MANIFEST}: it was added later" for name in evidence if name not in self.files]
        return found


def _difference(path: Path, name: str, expected: Digest, config: bytes) -> str:
    try:
        found = Digest.of(config) if name == CONFIG else Digest.of_file(path / name)
    except FileNotFoundError:
        return f"{name} is missing"
    except (OSError, ValueError) as error:
        return f"{name} cannot be read ({error})"
    if found.size != expected.size:
        return f"{name} was changed: it has {found.size:,} bytes, and had {expected.size:,}"
    return "" if found == expected else f"{name} was changed: its SHA-256 digest is not the one in {MANIFEST}"


def _evidence(path: Path) -> list[str]:
    return sorted(name for pattern in EVIDENCE for name in _names(path, pattern))


def _is_evidence(name: str) -> bool:
    return any(Path(name).match(pattern) for pattern in EVIDENCE)


def _names(path: Path, pattern: str) -> Iterator[str]:
    return (each.relative_to(path).as_posix() for each in path.glob(pattern))
