"""From what a user passes to a model; what is none is refused with what would make it one."""

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument
from holdfast.models.callable import CallableModel
from holdfast.models.exported import ExportedModule
from holdfast.models.http import HttpModel
from holdfast.models.model import Model
from holdfast.models.onnx import OnnxModel, is_session
from holdfast.models.torch import TorchModel


def as_model(
    given: nn.Module | Model | Callable[[Any], Any] | object,
    *,
    outputs: str,
    device: str | torch.device | None,
    precision: str | None,
    compiled: bool | None,
) -> Model:
    """A model as it is; a module, a program, an ONNX model, an estimator, or any other function of a batch, as one."""
    if compiled is not None and not isinstance(compiled, bool):
        raise InvalidArgument(f"compile must be True, False, or None to leave it to Holdfast, got {compiled!r}")
    if isinstance(given, torch.export.ExportedProgram):
        given = ExportedModule(given)
    if isinstance(given, nn.Module):
        return TorchModel(given, outputs=outputs, device=device, precision=precision, compiled=compiled)
    if precision not in (None, "float32") or compiled:
        raise InvalidArgument(_MODULES)
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        if device not in _HERE:
            raise InvalidArgument(_MODULES)
        return HttpModel(given, outputs=outputs)
    if is_session(given) or (isinstance(given, str | Path) and Path(given).suffix == ".onnx"):
        return OnnxModel(given, outputs=outputs, device=device)
    if isinstance(given, Model):
        return _checked(given, device)
    if device not in _HERE:
        raise InvalidArgument(_MODULES)
    if not isinstance(given, type):
        # By name, as scikit-learn does: an estimator may have a method only if it was told to when it was fitted.
        if estimated := getattr(given, "predict_proba", None):
            return CallableModel(estimated, outputs="probabilities")
        if builtins.callable(given):
            return CallableModel(given, outputs=outputs)
    raise InvalidArgument(
        f"expected a torch.nn.Module that maps a batch to class scores, a Model, or a function of batches, got "
        f"{_called(given)}"
    )


_HERE = (None, "cpu", "auto", torch.device("cpu"))
_MODULES = "device, precision and compile are for torch modules; leave them out, or make a Model of your own that runs as you like"


def _checked(given: Model, device: str | torch.device | None) -> Model:
    name, place = getattr(given, "name", None), getattr(given, "device", None)
    if not isinstance(name, str) or not isinstance(place, torch.device):
        raise InvalidArgument(f"a Model must set name, a str, and device, a torch.device; got {name!r} and {place!r}")
    if device not in _HERE and str(device) != str(place):
        raise InvalidArgument(_MODULES)
    return given


def _called(given: object) -> str:
    """What it is, and the one line that makes a model of it."""
    kind = type(given).__name__
    if isinstance(given, type):
        return f"the class {given.__name__} itself; make one: {given.__name__}()"
    if isinstance(given, str | Path):
        return f"{kind}; holdfast.load({str(given)!r}) loads a network by its name or its file"
    if isinstance(given, Mapping) and any(isinstance(each, Tensor) for each in given.values()):
        return f"{kind}, weights without their network; build it, and net.load_state_dict(weights), then pass net"
    if isinstance(given, list | tuple) and given and all(isinstance(each, nn.Module) for each in given):
        return f"{kind} of networks; holdfast.Ensemble([...]) averages them"
    if getattr(given, "decision_function", None):
        return (
            f'{kind}, which has no predict_proba; pass model.decision_function with outputs="logits" if it has a column for '
            f"each class, or calibrate it: CalibratedClassifierCV(model)"
        )
    return f"{kind}; pass a function that takes a NumPy batch and returns class scores, such as lambda rows: model.predict(rows)"
