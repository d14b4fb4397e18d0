"""Models: what can be certified."""

from holdfast.models.model import Model
from holdfast.models.probit import ProbitModel
from holdfast.models.torch_model import TorchModel, check_model, resolve_device

__all__ = ["Model", "ProbitModel", "TorchModel", "check_model", "resolve_device"]
