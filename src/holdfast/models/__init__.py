"""Models: what can be certified."""

from holdfast.models.device import resolve_device
from holdfast.models.model import Model, check_model
from holdfast.models.probit import ProbitModel
from holdfast.models.torch_model import TorchModel

__all__ = ["Model", "ProbitModel", "TorchModel", "check_model", "resolve_device"]
