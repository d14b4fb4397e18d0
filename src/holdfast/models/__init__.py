"""Models: what can be certified."""

from holdfast.models.as_model import as_model
from holdfast.models.callable import CallableModel
from holdfast.models.ensemble import Ensemble
from holdfast.models.model import Model
from holdfast.models.onnx import OnnxModel
from holdfast.models.scaled import Scaled
from holdfast.models.torch import TorchModel, resolve_device

__all__ = ["CallableModel", "Ensemble", "Model", "OnnxModel", "Scaled", "TorchModel", "as_model", "resolve_device"]
