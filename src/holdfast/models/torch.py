"""Any ``torch.nn.Module`` as a model, and the replicas that run in its place."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.compile_rule import CompileRule
from holdfast.models.ensemble import checked_members
from holdfast.models.fast.compile import (
    compiled_module,
    compiling,
    expected_cost,
    expected_gain,
    has_wide_convolutions,
    is_worth_compiling,
)
from holdfast.models.fast.compile_times import CompileTime
from holdfast.models.fast.flops import counted_flops
from holdfast.models.fast.folded import FoldedConv2d
from holdfast.models.fast.precision import Precision, precision_named
from holdfast.models.fingerprint import fingerprint, structure_hash
from holdfast.models.hints import failure
from holdfast.models.model import Model, running
from holdfast.models.outputs import as_probabilities, check_outputs, checked_probabilities, scores_of
from holdfast.models.replica import Snapshot, versions_of, weights_of

_CASTABLE = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.MultiheadAttention)
_LOW = (torch.bfloat16, torch.float16)
_LONGEST_REASON = 200
"""Characters of what torch says when it cannot compile, which may be pages."""


class TorchModel(Model):
    """Wraps a module that maps a batch to logits or to probabilities; ``outputs`` says which, and it is checked.

    The module is put on ``device`` if one is given and is otherwise left where its parameters are. It is never run: replicas
    of it are, in evaluation and inference mode. Its structure is fixed when this is made; weights that are changed in place
    are seen whenever sampling begins. A module that cannot be replicated is run itself, by one worker.

    Parameters:
        precision: of convolutions and matrix products; None is what torch's global settings say when this is made.
        compiled: compile the module before sampling; None does so once the work that lies ahead makes it pay. A module
            that cannot be compiled is run as it is, with a warning.
    """

    def __init__(
        self,
        net: nn.Module,
        *,
        outputs: str = "logits",
        device: str | torch.device | None = None,
        precision: str | None = None,
        compiled: bool | None = None,
    ) -> None:
        if not isinstance(net, nn.Module):
            raise InvalidArgument(
                f"expected a torch.nn.Module that maps a batch to class scores, got {type(net).__name__}"
            )
        if any(is_lazy(parameter) for parameter in net.parameters()):
            raise InvalidArgument(
                f"the module {type(net).__name__} has parameters without a shape yet (lazy layers); run it once on a batch first"
            )
        self._logits = check_outputs(outputs)
        self.device, self._devices = _devices(resolve_device(device, net))
        self._precision = precision_named(precision, self.device)
        if device is not None:
            net.to(self.device)
        self.name = type(net).__name__
        self.precision = self._precision.name
        self._asked = compiled
        self._snapshot = _snapshot(net)
        self.compiled = bool(compiled) and self._can_compile
        self._module = net if self._snapshot is None else self._snapshot.load()
        self._graphs: dict[torch.device, TorchReplica] = {}
        self._net, self._weights = net, weights_of(net)

    def fingerprint(self) -> str | None:
        """Of the structure and the weights that are certified; not of what was kept while it ran."""
        return fingerprint(self._module if self._snapshot is None else self._snapshot.load())

    @property
    def rounded(self) -> bool:
        """Its own weights may be of a low precision, too."""
        return self.precision != "float32" or any(each.dtype in _LOW for each in self._weights)

    @property
    def _can_compile(self) -> bool:
        """A replica, unless it is TorchScript."""
        return self._snapshot is not None and not self._snapshot.scripted

    @property
    def weights_version(self) -> object:
        """Writing through ``.data`` is not noticed."""
        return versions_of(self._weights)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All visible GPUs, if a GPU without a number was asked for."""
        return self._devices

    def refresh(self) -> None:
        """Weights are shared; refused if the module has got others since."""
        now = weights_of(self._net)
        if len(now) != len(self._weights) or any(a is not b for a, b in zip(now, self._weights, strict=True)):
            raise ModelError(
                f"parameters or buffers of the model {self.name} were replaced after SmoothedClassifier was made, and not written to in "
                f"place; make a new SmoothedClassifier (load_state_dict with assign=True replaces them)"
            )

    @contextmanager
    def session(self) -> Iterator[None]:
        """The precision's rules; evaluation mode, which a replica is in already."""
        with running, self._precision.rules(), _evaluating(self._module):
            yield

    def probabilities(self, batch: Tensor) -> Tensor:
        """What the module says, plainly run."""
        return as_probabilities(self._run(self._module, batch), logits=self._logits)

    def _run(self, forward: Callable[[Tensor], Tensor], batch: Tensor, *, first: bool = False) -> Tensor:
        with torch.inference_mode(), self._precision.autocast(self.device):
            try:
                answer: Tensor = scores_of(forward(batch))
                return answer
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # the module is foreign code
                raise failure(self.name, error, batch.shape, first=first) from error

    def gradient(self, batch: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Of the module, plainly run at its own precision; no weight gets a ``grad``. None if it cannot be differentiated."""
        with torch.inference_mode(False), torch.enable_grad():
            rows = batch.clone().requires_grad_(True)
            try:
                values = value(as_probabilities(scores_of(self._module(rows)), logits=self._logits))
                return torch.autograd.grad(values.sum(), rows)[0]
            except torch.OutOfMemoryError:
                raise
            except Exception:  # the module is foreign code: whatever it does, it can be attacked by its answers alone
                return None

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows; operations are counted on the way."""
        before = self.weights_version
        with counted_flops(self._module) as found, checked_members(self._module):
            answer = self._run(self._module, rows, first=True)
        self.flops = sum(found) / len(rows)
        if before != self.weights_version:
            raise ModelError(
                f"the model {self.name} cannot be certified: it writes to its own parameters or buffers while it runs, so noisy "
                f"copies would not be answered by one classifier; switch off what it records"
            )
        return checked_probabilities(self.name, answer, len(rows), logits=self._logits)

    def compile_rule(self, shape: torch.Size) -> CompileRule:
        """Never, if somebody asked for one or the other, or the module cannot be compiled."""
        if self._asked is not None or not self._can_compile:
            return CompileRule()
        known = self.compile_time(shape).seconds
        return CompileRule(
            expected_cost(self._module, self.device) if known is None else known, expected_gain(self.device)
        )

    def compile_time(self, shape: torch.Size) -> CompileTime:
        """How long compiling for inputs of a shape took, where the compiler keeps its results."""
        kind = "cpu" if self.device.type == "cpu" else torch.cuda.get_device_name(self.device)
        return CompileTime.of(structure_hash(self._module), tuple(shape), self.precision, kind)

    def worth_compiling(self, copies: int) -> bool:
        """By the operations alone: nothing is measured."""
        return is_worth_compiling(self.device, self.flops * copies)

    def choose_compile(self, compiled: bool) -> None:
        """Where nobody asked for either, and the module can be compiled."""
        if self._asked is None:
            self.compiled = compiled and self._can_compile

    def replicate(self, device: torch.device) -> "TorchReplica | None":
        """A replica that shares the weights; or has copies of them, where it is compiled, rounded or elsewhere."""
        if self._snapshot is None:
            return None
        if not self.compiled:
            return TorchReplica(self, self._snapshot, device)
        if device not in self._graphs:  # compiled once, and kept
            self._graphs[device] = TorchReplica(self, self._snapshot, device)
        return self._graphs[device]

    def fallback(self, reason: str) -> bool:
        """Uncompiled, with a warning; or else the module itself, by one worker."""
        if not self.compiled:
            found, self._snapshot = self._snapshot, None
            return found is not None
        self._asked = self.compiled = False
        warnings.warn(
            f"the model {self.name} could not be compiled and runs uncompiled, which is slower "
            f"(compile=False avoids this attempt): {shorten(reason, _LONGEST_REASON, placeholder=' ...')}",
            RuntimeWarning,
            stacklevel=2,
        )
        return True

    def builder(self) -> Callable[[torch.device], Model]:
        """With a copy of the module on the CPU, if it is elsewhere: what can be sent to any machine."""
        net = self._module if self.device.type == "cpu" else copy.deepcopy(self._module).cpu()
        outputs = "logits" if self._logits else "probabilities"
        settings = {"outputs": outputs, "precision": self.precision, "compiled": self.compiled}
        return lambda device: TorchModel(net, device=device, **settings)  # type: ignore[arg-type]


class TorchReplica(Model):
    """A replica of a module, laid out for its device, at the precision asked for, compiled if that was chosen.

    Attributes:
        forward: what is run: the compiled graph, or the replica itself.
    """

    def __init__(self, source: TorchModel, snapshot: Snapshot, device: torch.device) -> None:
        self._source = source
        self.name, self.precision, self.device = source.name, source.precision, device
        self.compiled = source.compiled
        plain = not self.compiled and source._precision.low is None and device == source.device
        net = snapshot.load(share=plain, own_classes=True)
        if not plain:
            net = _laid_out(net.to(device), source._precision)
        self._own = [] if plain else weights_of(net)
        self.forward = compiled_module(net, source._precision) if self.compiled else net
        self._calls: dict[torch.Size, int] = {}
        # One whole graph has no Python state left; tensors that it writes to it may have.
        self.stateless = self.compiled and not snapshot.other_tensors

    def refresh(self) -> None:
        """Nothing more is to be done where the weights are shared."""
        self._source.refresh()
        # One call for all weights of a kind: a GPU would wait for hundreds of calls.
        alike: dict[tuple[torch.dtype, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
        for mine, theirs in zip(self._own, self._source._weights if self._own else [], strict=True):
            targets, sources = alike.setdefault((mine.dtype, theirs.dtype), ([], []))
            targets.append(mine)
            sources.append(theirs)
        with torch.inference_mode(False), torch.no_grad():
            for targets, sources in alike.values():
                torch._foreach_copy_(targets, sources)

    def probabilities(self, batch: Tensor) -> Tensor:
        """What the replica says. Compiled, the first batch of a size takes half a minute, and the second must not again."""
        calls = self._calls.get(batch.shape, 0) if self.compiled else 2
        watching: AbstractContextManager[Any] = nullcontext()
        if calls < 2:
            self._calls[batch.shape] = calls + 1
            watching = (
                compiling(self._source._precision) if calls == 0 else torch.compiler.set_stance("fail_on_recompile")
            )
        began = time.monotonic()
        with watching:
            answer = self._source._run(self.forward, batch)
        if calls == 0:
            self._source.compile_time(batch.shape[1:]).remember(time.monotonic() - began)
        return as_probabilities(answer, logits=self._source._logits)

    @property
    def weights_version(self) -> object:
        """The module's, and those of copies."""
        return self._source.weights_version, versions_of(self._own)


def _laid_out(net: nn.Module, precision: Precision) -> nn.Module:
    """With convolutions stored channels last, which fast kernels read, and with weights cast once instead of in every pass."""
    low = precision.low
    folding = low is not None and has_wide_convolutions(net)
    for module in net.modules():
        if low is not None and type(module) in _CASTABLE:
            module.to(low)
        if type(module) is nn.Conv2d:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            if folding and FoldedConv2d.suits(module):
                module.__class__ = FoldedConv2d
    return net


def resolve_device(device: str | torch.device | None, net: nn.Module | None = None) -> torch.device:
    """The device asked for, if it is there; ``auto`` is the GPU if there is one; None is where the module is."""
    if device is None:
        first = next(net.parameters(), None) if net is not None else None
        return torch.device("cpu") if first is None else first.device
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        found = torch.device("meta")
    if found.type not in ("cpu", "cuda"):
        raise InvalidArgument(f'device must be "auto", "cpu" or "cuda" (or "cuda:1", ...), got {device!r}')
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(f"device {device!r} was asked for, but this torch sees no CUDA GPU; use the device 'cpu'")
    return found


def _devices(device: torch.device) -> tuple[torch.device, tuple[torch.device, ...]]:
    """The first device, and all: a GPU without a number means every one of them."""
    if str(device) != "cuda":
        return device, (device,)
    first = torch.device("cuda", torch.cuda.current_device())
    every = (torch.device("cuda", number) for number in range(torch.cuda.device_count()))
    return first, (first, *(other for other in every if other != first))


def _snapshot(net: nn.Module) -> Snapshot | None:
    """Of a module that can be replicated down to the last attribute."""
    try:
        made, structure = Snapshot(net), structure_hash(net)
        return made if structure is not None and structure == structure_hash(made.load()) else None
    except Exception:  # foreign code: whatever stops a copy, the module itself still runs
        return None


@contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode; then every submodule's flag as it was."""
    modules = list(net.modules())
    flags = [getattr(module, "training", False) for module in modules]  # frozen TorchScript has none
    if any(flags):
        net.eval()
    try:
        yield
    finally:
        if flags[0]:
            net.train()  # it may do more than set flags
        for module, flag in zip(modules, flags, strict=True) if any(flags) else ():
            module.training = flag
