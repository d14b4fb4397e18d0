"""Weights on disk: read as numbers only, never as code."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from holdfast.budgets import check_archive, check_expansion
from holdfast.errors import CheckpointError, reading
from holdfast.files import is_full, why_unwritable, write_file
from holdfast.zoo.architecture import Architecture, architecture_names
from holdfast.zoo.weight_conversion import classes_of, recognised, zoo_name, zoo_state

_ARCHITECTURE = "holdfast.architecture"


@dataclass(frozen=True)
class Opened:
    """What ``SmoothedClassifier`` takes, with what is known of where it came from; an architecture, if it is of the zoo."""

    net: Any
    architecture: Architecture | None
    notes: Mapping[str, str]


@dataclass(frozen=True)
class Checkpoint(Opened):
    """A network of the zoo."""

    net: nn.Module
    architecture: Architecture


def check_target(path: Path) -> None:
    """Refuse a place where weights could not be written, before any are trained."""
    if path.exists():
        raise CheckpointError(f"{path} exists already and is left as it is; choose another name or move it away")
    fault = why_unwritable(path)
    if fault:
        raise CheckpointError(f"{path} cannot be created: {fault}; choose another place")


def save_checkpoint(path: Path, net: nn.Module, architecture: Architecture, notes: Mapping[str, str]) -> None:
    """Write weights as safetensors, through a temporary file, never over an existing one."""
    check_target(path)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    # Not the library's save_file, which writes for the owner only: weights are as readable as any other file.
    write_bytes(path, save(state, metadata={_ARCHITECTURE: architecture.to_json(), **notes}))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file: it is there as a whole, or as it was before."""
    try:
        write_file(path, lambda file: file.write_bytes(content))
    except OSError as error:
        remedy = "free some space, or choose another place" if is_full(error) else "choose another place"
        raise CheckpointError(f"could not write {path} ({error}); {remedy}") from error


def load_checkpoint(path: Path, *, default: Architecture | None = None) -> Checkpoint:
    """Read a ``.safetensors`` file, or a ``torch.save`` of ``{"arch": name, "state_dict": ...}``, as weights only.

    Plain weights without such a description are read too, if their parameters' names tell the architecture.
    ``default`` gives what weights from elsewhere do not carry: the images' sizes, and a name where nothing tells it.
    """
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}; expected a .safetensors file or a torch.save of weights")
    if not os.access(path, os.R_OK):
        raise CheckpointError(f"{path} cannot be read: permission denied; ask its owner, or copy it")
    if path.suffix == ".safetensors":
        state, notes = _read_safetensors(path)
        if _ARCHITECTURE in notes:
            with reading(path, CheckpointError, "does not describe its architecture", remedy="copy it again"):
                architecture = Architecture.from_json(notes.pop(_ARCHITECTURE))
            return Checkpoint(_fill(path, architecture, state), architecture, notes)
        name = recognised(state)
        if name is None:
            raise _weights_alone(path, state)
    else:
        state, arch = _read_torch(path)
        name = arch or recognised(state) or (default.name if default and arch is not None else "")
    if not name:
        raise _weights_alone(path, state)
    if default is None or name not in architecture_names():
        raise CheckpointError(
            f"{path} is of architecture {name!r}, which the zoo cannot build here (it has: {', '.join(architecture_names())}); "
            f"load it in Python into your own module and pass that to holdfast.SmoothedClassifier"
        )
    architecture = Architecture(name, default.channels, default.size, classes_of(state) or default.classes)
    return Checkpoint(_fill(path, architecture, state), architecture, {})


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Weights under the zoo's names, and the file's notes."""
    remedy = "it may be truncated: copy it again"
    with reading(path, CheckpointError, "is not a readable safetensors file", remedy=remedy):
        with safe_open(path, framework="pt") as file:
            notes = dict(file.metadata() or {})
        return zoo_state(load_file(path)), notes


def _read_torch(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """Weights under the zoo's names, and the architecture that the file names; None if it is weights alone."""
    state, arch = _torch_state(path)
    return zoo_state(state), arch and zoo_name(arch)


def _torch_state(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """Weights under their own names, and the architecture that the file names; None if it is weights alone."""
    remedy = "give a file that torch.save wrote, or, if it is one, copy it again"
    with reading(path, CheckpointError, "is not a readable torch checkpoint", remedy=remedy):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about pickle protocols: what cannot be read is refused below
                if zipfile.is_zipfile(path):
                    check_archive(path, CheckpointError)
                content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise CheckpointError(
                f"{path} holds more than weights (pickled code or objects), which Holdfast never loads; "
                f"load it in a function of yours, --model net.py:make, or re-save it with torch.save({{'arch': ..., 'state_dict': "
                f"net.state_dict()}}, path)"
            ) from error
        described = isinstance(content, dict) and "state_dict" in content
        state = content["state_dict"] if described else content
        if not _is_state(state):
            raise CheckpointError(
                f"{path} must hold a dictionary with 'arch' and 'state_dict', got {_describe(content)}; "
                f"re-save it with torch.save({{'arch': ..., 'state_dict': net.state_dict()}}, path)"
            )
        check_expansion(path, sum(tensor.nbytes for tensor in state.values()), CheckpointError)
        return state, str(content.get("arch", "")) if described else None


def read_state(path: Path) -> dict[str, Tensor]:
    """The weights in a file by their own names, whatever network they are of."""
    if not path.is_file():
        raise CheckpointError(f"no file of weights at {path}")
    if path.suffix == ".safetensors":
        with reading(path, CheckpointError, "is not a readable safetensors file", remedy="copy it again"):
            return dict(load_file(path))
    return _torch_state(path)[0]


def _weights_alone(path: Path, state: Mapping[str, Tensor]) -> CheckpointError:
    """The error for weights whose network nobody names."""
    read = "safetensors.torch.load_file" if path.suffix == ".safetensors" else "torch.load"
    return CheckpointError(
        f"{path} holds {len(state)} tensors ({', '.join(list(state)[:2])}, ...) and not the network they belong to. Name a function that "
        f"builds it and loads them: --model net.py:make, with def make(): net = Net(); net.load_state_dict({read}({path.name!r})); "
        f"return net. Or timm:NAME --weights {path.name}; or, for an architecture of the zoo ({', '.join(architecture_names())}), "
        f"torch.save({{'arch': NAME, 'state_dict': net.state_dict()}}, path)"
    )


def _fill(path: Path, architecture: Architecture, state: Mapping[str, Tensor]) -> nn.Module:
    wrong, remedy = f"does not fit the architecture {architecture}", "copy it again, or take the one it was written for"
    with reading(path, CheckpointError, wrong, remedy=remedy):
        with torch.device("meta"):  # without memory: the sizes are whatever the file says
            _take(architecture.build(), state)
        return _take(architecture.build(), state).eval()


def _take(net: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    # Weights from elsewhere do not repeat what the architecture normalises with.
    own = {name: tensor for name, tensor in net.state_dict().items() if name.startswith("normalize.")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is copied to where there is no memory
        net.load_state_dict({**own, **state})
    return net


def _is_state(content: object) -> bool:
    return isinstance(content, dict) and all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    )


def _describe(content: object) -> str:
    if isinstance(content, dict):
        return f"a dictionary with {', '.join(map(repr, list(content)[:4]))}, ..."
    return f"a {type(content).__name__}"
