"""Any function from a batch to class scores as a model: scikit-learn's ``predict_proba``, or code of your own."""

import hashlib
import pickle
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.model import Model
from holdfast.models.outputs import as_probabilities, check_outputs, checked_probabilities


class CallableModel(Model):
    """Wraps a function that maps a batch (n, ...) to class scores (n, classes), on the CPU.

    One worker runs the function itself, as it is at the time. A method of an object that pickle can write, such as
    ``forest.predict_proba``, has a fingerprint; no other function has one.

    Parameters:
        function: takes a float32 batch and returns class scores, as an array or a tensor.
        outputs: what it returns, ``"logits"`` or ``"probabilities"``; it is checked.
        arrays: what it takes, ``"numpy"`` arrays or ``"torch"`` tensors.
    """

    device = torch.device("cpu")

    def __init__(
        self, function: Callable[[Any], Any], *, outputs: str = "probabilities", arrays: str = "numpy"
    ) -> None:
        if not callable(function):
            raise InvalidArgument(f"expected a function from a batch to class scores, got {type(function).__name__}")
        if arrays not in ("numpy", "torch"):
            raise InvalidArgument(f'arrays must be "numpy" or "torch", got {arrays!r}')
        self._function, self._arrays = function, arrays
        self._logits = check_outputs(outputs)
        owner = type(function.__self__).__name__ + "." if isinstance(function, MethodType) else ""
        self.name = owner + getattr(function, "__name__", type(function).__name__)

    def probabilities(self, batch: Tensor) -> Tensor:
        """What the function says, normalised."""
        return as_probabilities(self._scores(batch), logits=self._logits)

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows, refused in words if they are not a classifier's."""
        return checked_probabilities(self.name, self._scores(rows), len(rows), logits=self._logits)

    def _scores(self, batch: Tensor) -> Tensor:
        with torch.inference_mode():
            try:
                answer = self._function(batch.numpy() if self._arrays == "numpy" else batch)
                return answer if isinstance(answer, Tensor) else torch.from_numpy(np.array(answer, order="C"))
            except Exception as error:  # the function is foreign code
                reason = " ".join(str(error).split())
                torchs = self._arrays == "numpy" and isinstance(error, AttributeError | TypeError)
                hint = '; a function of torch tensors needs CallableModel(function, arrays="torch")' if torchs else ""
                raise ModelError(
                    f"the model {self.name} failed on a batch of shape {tuple(batch.shape)}: {reason}{hint}"
                ) from error

    def fingerprint(self) -> str | None:
        """Of the object that the function is a method of, as it is now."""
        function = self._function
        if not isinstance(function, MethodType) or isinstance(function.__self__, type):
            return None
        try:
            return hashlib.sha256(pickle.dumps(function, protocol=5)).hexdigest()
        except Exception:  # foreign objects: whatever stops them from being written down
            return None
