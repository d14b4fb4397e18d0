"""Every error Holdfast raises on purpose.

::

    HoldfastError                   exit 1   (never raised itself)
    ├── InvalidArgument             exit 2   sigma, alpha, n, ... out of range, or a run of another kind; also a ValueError
    │   ├── InvalidEnvironment      exit 2   an environment variable of Holdfast's, whatever was being read with it
    │   ├── MissingPackage          exit 2   a package of an extra is not installed; also an ImportError
    │   └── OutOfRange              exit 2   a position in data or a run at which nothing is; also an IndexError
    ├── InvalidInput                exit 3   NaN, wrong shape, not in [0, 1]; also a ValueError
    ├── ModelError                  exit 4   the model returned something that is not a classifier's answer
    │   └── UnsteadyModel           exit 4   its answers change with other rows, from call to call, or with its weights
    ├── CheckpointError             exit 5   missing, unreadable or foreign weights
    ├── DatasetError                exit 6   unknown dataset, missing or malformed file
    ├── RunError                    exit 7   a run on disk: exists already, damaged, no space left
    ├── NotClaimed                  exit 8   asked for a claim that the certificate does not make
    ├── ClusterError                exit 9   Ray is missing, has too little room, or lost its workers again and again
    ├── NotVerified                 exit 10  'holdfast verify' found something wrong with a run
    ├── AuditFailed                 exit 11  an attack found what a certificate excludes
    ├── ClaimsLost                  exit 12  'holdfast recheck' confirmed fewer claims of a run than were required
    ├── NoThreshold                 exit 13  'holdfast triage' certified no threshold: everything goes to a human
    └── DriftFound                  exit 14  'holdfast drift' found new inputs to be unlike the calibration inputs

Each message says what was expected, what came, and what to do. The command line turns the class into its exit code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

_LONGEST = 500
"""Characters of what a library says: some list every weight of a network."""


class HoldfastError(Exception):
    """Base of everything Holdfast raises on purpose."""

    exit_code = 1


class InvalidArgument(HoldfastError, ValueError):
    """A parameter is outside the range in which its guarantee means something."""

    exit_code = 2


class InvalidEnvironment(InvalidArgument):
    """An environment variable of Holdfast's is set to what it cannot be."""


class MissingPackage(InvalidArgument, ImportError):
    """What was asked for needs a package that one of Holdfast's extras installs."""


class OutOfRange(InvalidArgument, IndexError):
    """A position at which nothing is: what ends a loop over positions, as Python has it."""


class InvalidInput(HoldfastError, ValueError):
    """An input to certify (or an array of scores) cannot be what was meant."""

    exit_code = 3


class ModelError(HoldfastError):
    """The model's output has the wrong shape, is not finite, or is not what ``outputs`` says."""

    exit_code = 4


class UnsteadyModel(ModelError):
    """Noisy copies were not answered by one classifier, row by row: nothing that was counted can be believed."""


class CheckpointError(HoldfastError):
    """A file of weights is missing, unreadable, or belongs to something else."""

    exit_code = 5


class DatasetError(HoldfastError):
    """A dataset is unknown, missing or malformed."""

    exit_code = 6


class RunError(HoldfastError):
    """A run on disk cannot be created, written or read; what is already there is left as it was."""

    exit_code = 7


class NotClaimed(HoldfastError, AttributeError):
    """The certificate does not make this claim, and spent no alpha on it."""

    exit_code = 8


class ClusterError(HoldfastError):
    """A cluster cannot be used: Ray is not installed, the resources are not there, or workers keep dying."""

    exit_code = 9


class NotVerified(HoldfastError):
    """A run is not as it was written, or its numbers do not follow from its counts."""

    exit_code = 10


class AuditFailed(HoldfastError):
    """An attacked input's average is below what was certified, beyond sampling error: a certificate of the run is false."""

    exit_code = 11


class ClaimsLost(HoldfastError):
    """After a change of the network, fewer claims of a run are confirmed than were required."""

    exit_code = 12


class NoThreshold(HoldfastError):
    """No confidence threshold is shown to keep the error among accepted inputs at epsilon or less."""

    exit_code = 13


class DriftFound(HoldfastError):
    """New inputs are unlike those that a threshold was calibrated on, so its guarantee is not about them."""

    exit_code = 14


@contextmanager
def reading(path: Path | str, error: type[HoldfastError], wrong: str, *, remedy: str) -> Iterator[None]:
    """Parse a file that anybody may have written: whatever a library raises at it is ``error``, which names the file.

    Parsers raise nearly anything at bytes that are not what they claim to be, and other versions of them raise other things.
    """
    try:
        yield
    except (error, InvalidEnvironment):
        raise
    except Exception as cause:
        said = " ".join(str(cause).split())  # some libraries say it in many lines
        if not isinstance(cause, HoldfastError):
            said = shorten(said, _LONGEST, placeholder=" ...")
        if isinstance(cause, KeyError):
            said = f"it has no {said}"
        elif isinstance(cause, FileNotFoundError):
            said = "it does not exist"
        elif isinstance(cause, IsADirectoryError):
            said = "it is a folder"
        elif not isinstance(cause, HoldfastError):
            said = f"{type(cause).__name__}: {said}" if said else type(cause).__name__
        raise error(f"{path} {wrong} ({said}); {remedy}") from cause


_EXTRA_OF = {
    "cryptography": "sign",
    "fastapi": "serve",
    "h11": "serve",
    "httpx": "http",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "prometheus_client": "serve",
    "pydantic": "serve",
    "ray": "ray",
    "safetensors": "torch",
    "sklearn": "sklearn",
    "starlette": "serve",
    "torch": "torch",
    "transformers": "transformers",
    "uvicorn": "serve",
}
"""Packages that are not always there, by the name they are imported by, and the extra that installs each."""


def how_to_install(extra: str) -> str:
    """The one command, from any folder: pip finds the extra in the Holdfast that is installed."""
    return f"pip install 'holdfast-certify[{extra}]'"


@contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Say how to install a package of an extra, where an import of it fails."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, HoldfastError) or package not in _EXTRA_OF:
            raise
        raise MissingPackage(
            f"this needs {package}, which could not be imported ({error}); install it with: {how_to_install(_EXTRA_OF[package])}"
        ) from error
