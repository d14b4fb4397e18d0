"""Models: what can be certified."""

import builtins
from collections.abc import Callable
from typing import Any

from torch import device as Device  # noqa: N812
from torch import nn

from holdfast.errors import InvalidArgument
from holdfast.models.callable import CallableModel
from holdfast.models.ensemble import Ensemble
from holdfast.models.fast.precision import check_native
from holdfast.models.model import Model
from holdfast.models.torch import TorchModel, resolve_device

__all__ = ["CallableModel", "Ensemble", "Model", "TorchModel", "as_model", "resolve_device"]


def as_model(
    given: nn.Module | Model | Callable[[Any], Any],
    *,
    outputs: str,
    device: str | Device | None,
    precision: str | None,
    compiled: bool | None,
) -> Model:
    """A model as it is; a module, or any other function of a batch, as one."""
    if compiled is not None and not isinstance(compiled, bool):
        raise InvalidArgument(f"compile must be True, False, or None to leave it to Holdfast, got {compiled!r}")
    if isinstance(given, nn.Module):
        module = TorchModel(given, outputs=outputs, device=device, precision=precision, compiled=compiled)
        check_native(module.precision, module.device)
        return module
    if device not in (None, "cpu", "auto") or precision not in (None, "float32") or compiled:
        raise InvalidArgument(
            "device, precision and compile are for torch modules; make a Model of your own that runs as you like"
        )
    if isinstance(given, Model):
        name, place = getattr(given, "name", None), getattr(given, "device", None)
        if not isinstance(name, str) or not isinstance(place, Device):
            raise InvalidArgument(
                f"a Model must set name, a str, and device, a torch.device; got {name!r} and {place!r}"
            )
        return given
    if builtins.callable(given):  # the name alone is that of a module here
        return CallableModel(given, outputs=outputs)
    raise InvalidArgument(
        f"expected a torch.nn.Module that maps a batch to class scores, a Model, or a function of batches, got {type(given).__name__}"
    )
