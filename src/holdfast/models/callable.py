"""Any function from a batch to class scores as a model: scikit-learn's ``predict_proba``, or code of your own."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from reprlib import repr as short_repr
from types import MethodType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.fingerprint import content_hash
from holdfast.models.hints import failure
from holdfast.models.model import Model, torch_threads
from holdfast.models.outputs import as_probabilities, check_outputs, checked_probabilities, scores_of


class CallableModel(Model):
    """Wraps a function that maps a batch (n, ...) to class scores (n, classes), on the CPU.

    One worker runs the function itself, as it is at the time. A method of an object that pickle can write, such as
    ``forest.predict_proba``, has a fingerprint; no other function has one.

    Parameters:
        function: takes a float32 batch and returns class scores, as an array or a tensor.
        outputs: what it returns, ``"logits"`` or ``"probabilities"``; it is checked.
        arrays: what it takes, ``"numpy"`` arrays or ``"torch"`` tensors.
        version: a name for what the function computes, which you change whenever that changes. It makes a fingerprint
            for a function that has none, so that runs can be resumed.
    """

    device = torch.device("cpu")
    rows = 2_048

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        outputs: str = "probabilities",
        arrays: str = "numpy",
        version: str | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidArgument(f"expected a function from a batch to class scores, got {type(function).__name__}")
        if iscoroutinefunction(function):
            name = function.__name__
            raise InvalidArgument(
                f"expected a function that returns class scores, got the async function {name}, which has to be awaited; give "
                f"lambda rows: asyncio.run({name}(rows))"
            )
        if arrays not in ("numpy", "torch"):
            raise InvalidArgument(f'arrays must be "numpy" or "torch", got {arrays!r}')
        self._function, self._arrays, self._version = function, arrays, version
        self._logits = check_outputs(outputs)
        owner = type(function.__self__).__name__ + "." if isinstance(function, MethodType) else ""
        self.name = owner + getattr(function, "__name__", type(function).__name__)

    def probabilities(self, batch: Tensor) -> Tensor:
        """What the function says, normalised."""
        scores = self._scores(batch)
        with torch_threads(1):
            return as_probabilities(scores, logits=self._logits)

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows, refused in words if they are not a classifier's."""
        return checked_probabilities(self.name, self._scores(rows), len(rows), logits=self._logits)

    def _scores(self, batch: Tensor) -> Tensor:
        with torch.inference_mode():
            try:
                answer = scores_of(self._function(batch.numpy() if self._arrays == "numpy" else batch))
            except Exception as error:  # the function is foreign code
                found = failure(self.name, error, batch.shape)
                if self._arrays == "numpy" and isinstance(error, AttributeError | TypeError):
                    found = ModelError(
                        f'{found}; a function of torch tensors needs CallableModel(function, arrays="torch")'
                    )
                raise found from error
            if isinstance(answer, Tensor):
                return answer
            try:
                return _tensor(np.array(answer, order="C"))
            except Exception as error:  # it may be anything
                raise ModelError(
                    f"the function {self.name} must return an ({len(batch)}, classes) array of scores, got "
                    f"{type(answer).__name__} ({short_repr(answer)})"
                ) from error

    def fingerprint(self) -> str | None:
        """Of its ``version``, or else of the object that the function is a method of, as it is now."""
        if self._version is not None:
            return content_hash((self.name, self._version, self._logits))
        function = self._function
        if not isinstance(function, MethodType) or isinstance(function.__self__, type):
            return None
        return content_hash((function.__name__, function.__self__))


def _tensor(answer: NDArray[Any]) -> Tensor:
    """Of what NumPy holds; of bfloat16, which is JAX's and no type of NumPy's, in float32."""
    return torch.from_numpy(answer.astype(np.float32) if answer.dtype.name == "bfloat16" else answer)
