"""Models that are no checkpoints of the zoo: programs, ONNX files, folders of transformers, timm, and code that the user names."""

import importlib
import importlib.util
import os
import re
import sys
import traceback
import warnings
import zipfile
from hashlib import file_digest
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from holdfast.budgets import check_archive
from holdfast.errors import CheckpointError, HoldfastError, reading
from holdfast.models import Model
from holdfast.models.exported import ExportedModule
from holdfast.zoo.checkpoint import Opened
from holdfast.zoo.huggingface import load_huggingface
from holdfast.zoo.timm import load_timm

_FACTORY = re.compile(r"(?P<place>.+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_FROM_FILES: set[str] = set()
"""Names of modules that are files of users'."""
_AGAIN = "export or save it again, and copy it whole"


def open_program(name: str, weights: Path | None = None) -> Opened | None:
    """A model by what ``--model`` takes beside the zoo's names and checkpoints; None for these.

    ``module.py:factory`` and ``package.module:factory`` run the user's code. TorchScript and ``.pt2`` files are programs, too.
    """
    if weights is not None and not name.startswith("timm:"):
        raise CheckpointError(
            f"--weights is for timm:NAME, got the model {name!r}; a file of weights alone is given as the model"
        )
    if name.startswith("hf:"):
        return load_huggingface(Path(name.removeprefix("hf:")))
    if name.startswith("timm:"):
        return load_timm(name.removeprefix("timm:"), weights)
    if name.startswith(("http://", "https://")):
        return Opened(name, None, {})
    path = Path(name)
    if not path.is_file():
        factory = _FACTORY.fullmatch(name)
        return (
            None if factory is None else Opened(run_factory(factory["place"], factory["name"]), None, _source(factory))
        )
    if path.suffix == ".onnx":
        return Opened(path, None, _digest(path))
    if path.suffix == ".pt2":
        return Opened(_load_exported(path), None, _digest(path))
    if path.suffix == ".py":
        raise CheckpointError(f"{path} is code: name the function in it that returns the network, such as {path}:make")
    inside = _members(path)
    if "archive_format" in inside:
        raise CheckpointError(f"{path} is a program of torch.export; rename it to {path.with_suffix('.pt2').name}")
    return Opened(_load_script(path), None, _digest(path)) if "constants.pkl" in inside else None


def run_factory(place: str, name: str) -> Any:
    """What a function of the user's returns, or the model of that name; its code runs with all that this process may do."""
    before = [*sys.path]
    try:
        sys.path.insert(0, str(Path(place).resolve().parent) if place.endswith(".py") else str(Path.cwd()))
        module = _module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, name, None)
        if found is None:
            raise CheckpointError(f"{place} has no {name}; name the function in it that returns a model")
        made = found if isinstance(found, nn.Module | Model) or not callable(found) else found()
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:
        raise CheckpointError(
            f"{place}:{name} gave no model ({_explained(error)}); it must be a function without arguments that returns a model"
        ) from error
    finally:
        sys.path[:] = before
    if made is None:
        raise CheckpointError(f"{place}:{name} returned None; it must return a model")
    return made


def _explained(error: BaseException) -> str:
    """What went wrong in the user's code, and where: of what cannot be parsed, the place in the text."""
    places = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    said = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        places, said = [*places, (error.filename, error.lineno)], error.msg
    theirs = [place for place in places if "importlib" not in place[0] and place[0] != __file__]
    reason = f"{type(error).__name__}: {' '.join(said.split())}" if said else type(error).__name__
    return f"{reason}, in {theirs[-1][0]}, line {theirs[-1][1]}" if theirs else reason


def _module(path: Path) -> ModuleType:
    """A file as a module of its own name, so that its classes are found by their names."""
    if not path.is_file():
        raise CheckpointError(f"no file at {path}; expected FILE.py:FUNCTION, with a function that returns a model")
    there = sys.modules.get(path.stem)
    if there is not None and Path(there.__file__ or "").resolve() == path.resolve():
        return there
    if there is not None and path.stem not in _FROM_FILES:
        raise CheckpointError(
            f"{path} has the name of a module that is in use, {path.stem}; rename it, such as my_{path.name}"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CheckpointError(f"{path} cannot be run as Python")
    module = importlib.util.module_from_spec(spec)
    _FROM_FILES.add(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]  # as Python does: it may be mended
        raise
    return module


def _load_exported(path: Path) -> nn.Module:
    with (
        reading(path, CheckpointError, "is not a readable program of torch.export", remedy=_AGAIN),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        check_archive(path, CheckpointError)
        return ExportedModule(torch.export.load(path))


def _load_script(path: Path) -> nn.Module:
    with reading(path, CheckpointError, "is not readable TorchScript", remedy=_AGAIN), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have torch.export
        check_archive(path, CheckpointError)
        found: nn.Module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        return found


def _members(path: Path) -> set[str]:
    """Names of the files in an archive of torch's, within its one folder."""
    if not (os.access(path, os.R_OK) and zipfile.is_zipfile(path)):
        return set()
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.partition("/")[2] for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return set()


def _digest(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {"file": path.name, "sha256": file_digest(file, "sha256").hexdigest()}


def _source(factory: re.Match[str]) -> dict[str, str]:
    place = Path(factory["place"])
    return {"factory": factory["name"], **(_digest(place) if place.suffix == ".py" and place.is_file() else {})}
