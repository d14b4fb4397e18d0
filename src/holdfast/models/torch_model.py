"""Any ``torch.nn.Module`` as a model."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.fingerprint import fingerprint
from holdfast.models.model import TOLERANCE, Model

Outputs = Literal["logits", "probabilities"]
_SAME = 1e-2


class TorchModel(Model):
    """Wraps a module that maps a batch to logits or to probabilities; ``outputs`` says which, and it is checked.

    The module is put on ``device`` if one is given and is otherwise left where its parameters are. It runs in evaluation
    mode and inference mode, and its training flags are put back afterwards.
    """

    def __init__(self, net: nn.Module, *, outputs: str = "logits", device: str | torch.device | None = None) -> None:
        if not isinstance(net, nn.Module):
            raise InvalidArgument(
                f"expected a torch.nn.Module that maps a batch to class scores, got {type(net).__name__}"
            )
        if outputs not in ("logits", "probabilities"):
            raise InvalidArgument(f'outputs must be "logits" or "probabilities", got {outputs!r}')
        self._net = net
        self._softmax = outputs == "logits"
        self._device = resolve_device(device, net)
        if device is not None:
            net.to(self._device)

    @property
    def name(self) -> str:
        """The module's class."""
        return type(self._net).__name__

    @property
    def fingerprint(self) -> str:
        """Of the module's structure and weights."""
        return fingerprint(self._net)

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return self._device

    @property
    def precision(self) -> str:
        """float32 throughout: TensorFloat-32 is switched off while sampling."""
        return "float32"

    def moved(self, device: torch.device) -> "TorchModel":
        """The same model on another device; this one stays where it is."""
        if device == self._device:
            return self
        outputs = "logits" if self._softmax else "probabilities"
        return TorchModel(copy.deepcopy(self._net), outputs=outputs, device=device)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Evaluation mode and plain float32; then every flag as it was."""
        with evaluating(self._net), ieee_float32():
            yield

    def probabilities(self, batch: Tensor) -> Tensor:
        """Softmax of the logits, or the probabilities as they are, in float32."""
        with torch.inference_mode():
            try:
                answer: Tensor = self._net(batch).float()
            except Exception as error:  # the module is foreign code
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"the model {self.name} failed on a batch of shape {tuple(batch.shape)}: {reason}"
                ) from error
            return answer.softmax(1) if self._softmax else answer

    def complaint(self, batch: Tensor) -> str:
        """Run the module a few times and say what is wrong with its answers, if anything."""
        with self.prepared():
            return self._complaint(batch)

    def _complaint(self, batch: Tensor) -> str:
        with torch.inference_mode():
            try:
                answer = self._net(batch)
            except Exception as error:  # the module is foreign code: whatever it raises, say so before sampling
                reason = " ".join(str(error).split())
                hint = "; noisy copies are float32: net.float() may be what is missing" if "dtype" in reason else ""
                return f"it failed on a batch of shape {tuple(batch.shape)}: {reason}{hint}"
        rows = len(batch)
        if not isinstance(answer, Tensor):
            return f"expected a tensor of shape ({rows}, classes), got {type(answer).__name__}; wrap the module to return its logits"
        if answer.ndim != 2 or answer.shape[0] != rows or answer.shape[1] < 2:
            hint = "; a binary model with one output needs two: stack (0, logit)" if answer.numel() == rows else ""
            return (
                f"expected a tensor of shape ({rows}, classes) with at least 2 classes, got {tuple(answer.shape)}{hint}"
            )
        if not answer.is_floating_point():
            return f"expected floating-point class scores, got {answer.dtype}; return logits, not class indices"
        if not bool(torch.isfinite(answer).all()):
            return "expected finite class scores, got NaN or infinity"
        sums_to_one = bool(((answer.float().sum(1) - 1).abs() <= TOLERANCE).all()) and bool((answer >= 0).all())
        if self._softmax and sums_to_one:
            return (
                "its rows are nonnegative and sum to one, so they are probabilities, not logits: "
                'pass outputs="probabilities" (on the command line, --outputs probabilities)'
            )
        if not self._softmax and not sums_to_one:
            row = answer[0].float()
            return (
                f"expected probabilities that are nonnegative and sum to one, got a row with minimum {row.min().item():.4g} and sum "
                f'{row.sum().item():.4g}; for unnormalised scores pass outputs="logits" (on the command line, --outputs logits)'
            )
        return self._company(batch)

    def _company(self, batch: Tensor) -> str:
        """Ask again with half of the rows in other places and among others; a row's answer must not change."""
        rows, strangers = batch.chunk(2)
        half = len(rows) // 2
        first = self.probabilities(rows)[:half]
        again = self.probabilities(torch.cat((strangers[half:], rows[:half].flip(0))))[-half:].flip(0)
        change = float((first - again).abs().max())
        if change <= _SAME:
            return ""
        return (
            f"the answer to one row changes by {change:.2g} with the other rows of the batch (or from call to call), so noisy copies "
            f"would not be independent samples; give batch normalisation running statistics, and take randomness out"
        )


def resolve_device(device: str | torch.device | None, net: nn.Module | None = None) -> torch.device:
    """The device asked for, if it is there; ``auto`` is the GPU if there is one; None is where the module is."""
    if device is None:
        first = next(net.parameters(), None) if net is not None else None
        return torch.device("cpu") if first is None else first.device
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise InvalidArgument(f'device must be "auto", "cpu" or "cuda" (or "cuda:1", ...), got {device!r}') from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(f"device {device!r} was asked for, but this torch sees no CUDA GPU; use --device cpu")
    return found


@contextmanager
def ieee_float32() -> Iterator[None]:
    """Plain float32 on GPUs for a while, instead of TensorFloat-32, then the user's settings again."""
    conv, matmul = torch.backends.cudnn.conv, torch.backends.cuda.matmul  # type: ignore[attr-defined]
    before = conv.fp32_precision, matmul.fp32_precision
    conv.fp32_precision = matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        conv.fp32_precision, matmul.fp32_precision = before


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while, then every submodule's flag as it was."""
    training = [module for module in net.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def check_model(model: Model, batch: Tensor) -> None:
    """Refuse a model whose answer to a first small batch is not a classifier's."""
    wrong = model.complaint(batch)
    if wrong:
        raise ModelError(f"the model {model.name} cannot be certified: {wrong}")
