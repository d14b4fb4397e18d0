"""Weights on disk: read as numbers only, never as code."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from holdfast.errors import CheckpointError, InvalidArgument
from holdfast.zoo.architecture import Architecture, architecture_names

_ARCHITECTURE = "holdfast.architecture"


@dataclass(frozen=True)
class Checkpoint:
    """A network with what is known of where its weights came from."""

    net: nn.Module
    architecture: Architecture
    notes: Mapping[str, str]


def check_target(path: Path) -> None:
    """Refuse a place where weights could not be written, before any are trained."""
    if path.exists():
        raise CheckpointError(f"{path} exists already and is left as it is; choose another name or move it away")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise CheckpointError(
            f"{path} cannot be created: {parent} is not a folder that can be written to; choose another --out"
        )


def save_checkpoint(path: Path, net: nn.Module, architecture: Architecture, notes: Mapping[str, str]) -> None:
    """Write weights as safetensors, through a temporary file, never over an existing one."""
    check_target(path)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    temporary = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(state, temporary, metadata={_ARCHITECTURE: architecture.to_json(), **notes})
        # The library writes for the owner only; weights are as readable as any other file.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"could not write {path} ({error}); free some space or choose another --out") from error


def load_checkpoint(path: Path, *, default: Architecture | None = None) -> Checkpoint:
    """Read a ``.safetensors`` file, or a ``torch.save`` of ``{"arch": name, "state_dict": ...}``, as weights only.

    ``default`` gives the sizes (and, for a bare state dict, the name) that such a ``torch.save`` does not carry.
    """
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}; expected a .safetensors file or a torch.save of weights")
    if not os.access(path, os.R_OK):
        raise CheckpointError(f"{path} cannot be read: permission denied; ask its owner, or copy it")
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    return _load_torch(path, default)


def _load_safetensors(path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="pt") as file:
            notes = dict(file.metadata() or {})
        state = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); it may be truncated: copy it again"
        ) from error
    described = notes.pop(_ARCHITECTURE, None)
    if described is None:
        raise CheckpointError(
            f"{path} has no '{_ARCHITECTURE}' in its metadata, so it was not written by 'holdfast train'; "
            f"load it in Python into your own module and pass that to holdfast.SmoothedClassifier"
        )
    try:
        architecture = Architecture.from_json(described)
    except InvalidArgument as error:
        raise CheckpointError(f"{path}: {error}; a newer Holdfast may know it") from error
    return Checkpoint(_fill(path, architecture, state), architecture, notes)


def _load_torch(path: Path, default: Architecture | None) -> Checkpoint:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols: what cannot be read is refused below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds more than weights (pickled code or objects), which Holdfast never loads; "
            f"re-save it with torch.save({{'arch': ..., 'state_dict': net.state_dict()}}, path)"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} is not a readable torch checkpoint ({type(error).__name__}); copy it again"
        ) from error
    if not (isinstance(content, dict) and "state_dict" in content and isinstance(content["state_dict"], dict)):
        raise CheckpointError(
            f"{path} must hold a dictionary with 'arch' and 'state_dict', got {_describe(content)}; "
            f"re-save it with torch.save({{'arch': ..., 'state_dict': net.state_dict()}}, path)"
        )
    name = str(content.get("arch", default.name if default else "")).replace("_", "-")
    if default is None or name not in architecture_names():
        raise CheckpointError(
            f"{path} is of architecture {name!r}, which the zoo cannot build here (it has: {', '.join(architecture_names())}); "
            f"load it in Python into your own module and pass that to holdfast.SmoothedClassifier"
        )
    architecture = Architecture(name, default.channels, default.size, default.classes)
    return Checkpoint(_fill(path, architecture, content["state_dict"]), architecture, {})


def _fill(path: Path, architecture: Architecture, state: Mapping[str, Tensor]) -> nn.Module:
    net = architecture.build()
    plain = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    try:
        net.load_state_dict(plain)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} does not fit the architecture {architecture}: {reason}") from error
    return net.eval()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _describe(content: object) -> str:
    if isinstance(content, dict):
        return f"a dictionary with {', '.join(map(repr, list(content)[:4]))}, ..."
    return f"a {type(content).__name__}"
