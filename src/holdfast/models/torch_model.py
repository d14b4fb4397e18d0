"""Any ``torch.nn.Module`` as a model."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.answer import fault_of
from holdfast.models.compiler import quiet_compiler, versions_of
from holdfast.models.device import resolve_device
from holdfast.models.evaluation import evaluating
from holdfast.models.interleaving import answers_apart, answers_together
from holdfast.models.model import Model
from holdfast.models.precision import precision_named
from holdfast.models.skeleton import fingerprint, skeleton_of
from holdfast.models.spot_check import EXACT, ROUNDED, SpotCheck, apart, spot_check, turned
from holdfast.models.steadiness import Writes, drifts, keeps_notes
from holdfast.models.work import operations_per_copy
from holdfast.models.working import WorkingCopy, copy_weights, weights_of

Outputs = Literal["logits", "probabilities"]
_CHANGE = 1e-2
_COMPARED = 64
_TRIED = 4
_TRIES = 4
_WORTH_COMPILING = {"cuda": 1e12, "cpu": 1e13}
"""Operations per input from which the half minute or more of compiling is worth it."""


_warming = RLock()
_turns: "WeakKeyDictionary[nn.Module, RLock]" = WeakKeyDictionary()
_handing_out = RLock()


@contextmanager
def _turn_of(net: nn.Module) -> Iterator[None]:
    """Held by who asks a module that only one may ask at a time, whichever classifier or module it is asked through."""
    with _handing_out:
        turns = {id(part): _turns.setdefault(part, RLock()) for part in net.modules()}
    with ExitStack() as stack:
        for _, turn in sorted(turns.items()):  # in one order, so that nobody waits for who waits for him
            stack.enter_context(turn)
        yield


@dataclass
class _Comparison:
    """Of what was compiled with the module.

    If rows could not tell, it is made again whenever weights have changed, and at the second, fourth, eighth, ... question.
    """

    telling: bool
    weights: object
    questions: int = 1

    def due(self, weights: Callable[[], object]) -> bool:
        """Whether another one is, at the next question."""
        if self.telling:
            return False
        self.questions += 1
        return self.questions.bit_count() == 1 or weights() != self.weights


class TorchModel(Model):
    """Wraps a module that maps a batch to logits or to probabilities; ``outputs`` says which, and it is checked.

    The module is put on ``device`` if one is given and is otherwise left where its parameters are. It runs in evaluation
    mode and inference mode, and its training flags are put back afterwards; compiled, or at a low precision, a copy of it
    runs in its place.

    Parameters:
        compiled: compile the module before sampling; None does so when the work per input makes it pay. A module
            that cannot be compiled is run as it is, with a warning.
    """

    def __init__(
        self,
        net: nn.Module,
        *,
        outputs: str = "logits",
        device: str | torch.device | None = None,
        precision: str = "float32",
        compiled: bool | None = None,
    ) -> None:
        if not isinstance(net, nn.Module):
            raise InvalidArgument(
                f"expected a torch.nn.Module that maps a batch to class scores, got {type(net).__name__}"
            )
        if outputs not in ("logits", "probabilities"):
            raise InvalidArgument(f'outputs must be "logits" or "probabilities", got {outputs!r}')
        self._net = net
        self._softmax = outputs == "logits"
        self._device = resolve_device(device, net)
        # A GPU without a number means all of them; the module itself goes to the first.
        self._everywhere = self._device.type == "cuda" and self._device.index is None
        if self._everywhere:
            self._device = torch.device("cuda", torch.cuda.current_device())
        self._precision = precision_named(precision, self._device)
        if device is not None:
            net.to(self._device)
        self._working = WorkingCopy(net, self._precision)
        self._others: list[TorchModel] = []
        self._spread: bytes | None = None
        self._skeleton: bytes | None = None
        self._asked = compiled
        self._compile = bool(compiled)
        # What was compiled, for batches of what size, and how it was compared.
        self._warm: dict[tuple[torch.Size, Callable[[Tensor], Tensor] | None], _Comparison] = {}
        self._reentrant = True
        self._work: float | None = None
        self._tried: Tensor | None = None

    @property
    def name(self) -> str:
        """The module's class."""
        return type(self._net).__name__

    @property
    def fingerprint(self) -> str | None:
        """Of the module's structure and weights."""
        return fingerprint(self._net)

    @property
    def revision(self) -> object:
        """Changes with the module's structure, and whenever its weights are replaced or written to in the usual ways.

        Far cheaper than the fingerprint; writing through ``.data`` is not noticed.
        """
        return skeleton_of(self._net), self._versions()

    def _versions(self) -> object:
        # Tensors made in inference mode do not count what is written to them: they always look changed.
        return tuple((id(each), object() if each.is_inference() else each._version) for each in weights_of(self._net))

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return self._device

    @property
    def precision(self) -> str:
        """What convolutions and matrix products are computed in."""
        return self._precision.name

    @property
    def compiled(self) -> bool:
        """Whether the module is run compiled."""
        return self._compile

    @property
    def reentrant(self) -> bool:
        """Whether several threads may ask the module at once: not if it keeps on itself what it works with."""
        return self._reentrant

    def spot_check(self) -> SpotCheck | None:
        """Some of the rows that it was last tried on."""
        if self._tried is None:
            return None
        with self.prepared():
            return self._check(self._tried.to(self._device)).cpu()

    def scores(self, rows: Tensor) -> Tensor:
        """What the module says of a few rows, uncompiled."""
        with self.prepared():
            return self._scores(self._eager(), rows.to(self._device))

    def _check(self, rows: Tensor) -> SpotCheck:
        """What other ways to run the module are compared with."""
        scores = self._scores(self._net, rows)
        rounded = self._precision.name != "float32" or any(
            each.dtype in (torch.bfloat16, torch.float16) for each in weights_of(self._net)
        )
        exact = None
        if self._precision.low is not None:
            # Its own weights may be of a low precision, and there may be no room.
            with suppress(ModelError, torch.OutOfMemoryError):
                exact = self._scores(self._net, rows, low=False)
        return spot_check(rows, scores, exact, rounded=rounded, logits=self._softmax)

    def look(self) -> bytes | None:
        """Look at the module again; what is returned changes with anything but weights, and is None if that cannot be told."""
        self._skeleton = skeleton_of(self._net)
        return self._skeleton

    def refresh(self) -> None:
        """Take over what the module was when last looked at, and its weights, for everything asked until the next time."""
        if not self._plain:
            self._working.refresh(self._skeleton)

    def operations(self, batch: Tensor) -> float:
        """Floating-point operations for one row like these."""
        with _turn_of(self._net), evaluating(self._net):
            self._work = operations_per_copy(self._net, batch)
        return self._work

    @property
    def work(self) -> float | None:
        """As found by :meth:`operations`."""
        return self._work

    def expect(self, operations: float) -> None:
        """Learn how much work an input is, and compile if that pays and nobody said otherwise.

        How many inputs there are plays no role: an input's certificate is the same alone and among others.
        """
        if self._asked is None:
            self._compile = operations >= _WORTH_COMPILING.get(self._device.type, float("inf"))

    def moved(self, device: torch.device) -> "TorchModel":
        """The same model on another device; this one stays where it is."""
        if device == self._device:
            return self
        other = TorchModel.__new__(TorchModel)
        net = copy.deepcopy(self._net).to(device)
        other.__setstate__({**self.__getstate__(), "_net": net, "_device": device, "_everywhere": False})
        return other

    def replicas(self) -> "list[TorchModel]":
        """The model on every further GPU, if it was to run on all; with the weights that it has now."""
        if not self._everywhere:
            return []
        skeleton = self._skeleton
        if skeleton is None or skeleton != self._spread or any(each._compile != self._compile for each in self._others):
            devices = (torch.device("cuda", number) for number in range(torch.cuda.device_count()))
            self._others = [self._compared(self.moved(device)) for device in devices if device != self._device]
            self._spread = skeleton
        for other in self._others:
            copy_weights(weights_of(self._net), weights_of(other._net))
            other._skeleton = skeleton
            other.refresh()
        return self._others

    def _compared(self, other: "TorchModel") -> "TorchModel":
        """A copy elsewhere, if it is one."""
        check = self.spot_check()
        fault = check and check.fault(other.scores(check.rows))
        if fault:
            raise ModelError(
                f"the model {self.name} answers otherwise on {other.device} than on {self.device} ({fault}), so that noisy "
                f"copies would not be answered by one classifier; keep what it computes with in parameters and buffers, or "
                f"use one GPU: device={str(self.device)!r}"
            )
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What is copied to other processes: not what was compiled in this one."""
        return {
            **vars(self),
            "_working": self._working.manner,
            "_warm": {},
            "_tried": None,
            "_others": [],
            "_spread": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._working = WorkingCopy(self._net, self._precision, state["_working"])

    def compiled_batch(self, shape: torch.Size) -> int | None:
        """How many inputs of a shape it was last compiled for; None if it would have to be compiled first, or is not."""
        forward = self._working.compiled_yet
        if not self._compile or forward is None:
            return None
        sizes = [rows[0] for rows, known in self._warm if known is forward and rows[1:] == shape]
        return sizes[-1] if sizes else None

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Evaluation mode and the precision's rules; then every flag as it was."""
        turn = nullcontext() if self._reentrant else _turn_of(self._net)
        with turn, evaluating(self._net), self._precision.rules():
            # Copies are out of everybody's reach; the user's own module is not, and may have to run in their place.
            itself = self._eager() is self._net
            before = Writes(self._net) if self._precision.low is None or itself else None
            yield
            if before is not None and (itself or self._eager() is self._net) and before.more:
                raise ModelError(
                    f"the weights or buffers of the model {self.name} were written to while it was sampled, so that noisy "
                    f"copies were not answered by one classifier; nothing was certified. Train and certify one after "
                    f"the other, and switch off what the module records while it runs"
                )

    def warm(self, size: torch.Size, draw: Callable[[], Tensor]) -> None:
        """Compile for batches of this size, if that is asked for and was not done yet, and try what was compiled on one."""
        with _warming:
            known = self._warm.get((size, self._working.compiled_yet))
            if self._compile and (known is None or known.due(self._versions)):
                self._warm_for(size, draw(), known)

    def _warm_for(self, size: torch.Size, batch: Tensor, known: _Comparison | None) -> None:
        # Kernels may go wrong in some places only.
        some = torch.linspace(0, len(batch) - 1, min(len(batch), _COMPARED), device=batch.device).round().long()
        check = self._check(batch[some])
        try:
            with quiet_compiler():
                forward = self._working.compiled()
                found, steady = self._steady_answers(forward, batch)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the compiler meets foreign code
            self._give_up(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return
        fault = check.fault(found[some])
        if fault:
            self._give_up(f"compiled, its {fault}")
        elif not steady:
            self._give_up("it changes while it runs, and would be compiled anew every time")
        else:
            asked = 1 if known is None else known.questions
            # What was compiled before the module changed is not kept. Others may be reading: they see all of it or nothing.
            self._warm = {
                **{each: how for each, how in self._warm.items() if each[1] is forward},
                (size, forward): _Comparison(check.telling, self._versions(), asked),
            }

    def _steady_answers(self, forward: Callable[[Tensor], Tensor], batch: Tensor) -> tuple[Tensor, bool]:
        """What the compiled module says once it is compiled for good, and whether it is."""
        self._scores(forward, batch)
        # What is kept from the first call may be seen by the second; another thread's calls may come between.
        for _ in range(_TRIES):
            before = versions_of(forward)
            found = self._scores(forward, batch)
            if versions_of(forward) == before:
                return found, True
        return found, False

    def _give_up(self, reason: str) -> None:
        self._compile = self._asked = False
        warnings.warn(
            f"the model {self.name} could not be compiled and runs uncompiled, which is slower "
            f"(compile=False avoids this attempt): {reason}",
            RuntimeWarning,
            stacklevel=3,
        )

    def probabilities(self, batch: Tensor) -> Tensor:
        """Softmax of the logits, or the probabilities as they are, in float32."""
        return self.asking(batch.shape)(batch)

    def asking(self, size: torch.Size) -> Callable[[Tensor], Tensor]:
        """Compiled only if what was compiled has been compared with the module on batches of this size."""
        forward: Callable[[Tensor], Tensor] = self._eager()
        compiled = self._working.compiled_yet
        if self._compile and compiled is not None and (size, compiled) in self._warm:
            forward = compiled

        def ask(batch: Tensor) -> Tensor:
            scores = self._scores(forward, batch)
            return scores.softmax(1) if self._softmax else scores

        return ask

    def _scores(self, forward: Callable[[Tensor], Tensor], batch: Tensor, *, low: bool = True) -> Tensor:
        with torch.inference_mode():
            try:
                with self._precision.autocast(self._device) if low else nullcontext():
                    answer = forward(batch)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # the module is foreign code
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"the model {self.name} failed on a batch of shape {tuple(batch.shape)}: {reason}"
                ) from error
            # A module may keep its answer's memory and write to it again while it is being counted.
            return answer.to(torch.float32, copy=True)

    @property
    def _plain(self) -> bool:
        """Whether the user's own module can run as it is: nothing is gained by a copy."""
        return not self._compile and self._precision.low is None

    def _eager(self) -> nn.Module:
        return self._net if self._plain else self._working.eager()

    def complaint(self, batch: Tensor) -> str:
        """Run the module a few times and say what is wrong with its answers, if anything."""
        with _turn_of(self._net), evaluating(self._net), self._precision.rules():
            wrong = self._complaint(batch)
            if wrong:
                return wrong
            before = Writes(self._eager())
            notes = keeps_notes(self._eager(), lambda: self._scores(self._eager(), batch.clone()))
            if before.more or drifts(self._eager(), lambda: self._scores(self._eager(), batch.clone())):
                return (
                    "it writes to its own parameters, buffers or other tensors while it runs, so noisy copies would not be "
                    "answered by one classifier; switch off what it records"
                )
            self._reentrant = not notes and self._shareable(batch)
            self._working.settle(batch)
            if self._eager() is not self._net and self._check(batch).fault(self._scores(self._eager(), batch)):
                self._working.stand_back()
            self._tried = batch[:_TRIED].cpu()
            return ""

    def _complaint(self, batch: Tensor) -> str:
        with torch.inference_mode(), self._precision.autocast(self._device):
            try:
                answer = self._eager()(batch)
            except Exception as error:  # the module is foreign code: whatever it raises, say so before sampling
                if self._eager() is not self._net:
                    self._working.stand_back()
                    return self._complaint(batch)
                reason = " ".join(str(error).split())
                hint = "; noisy copies are float32: net.float() may be what is missing" if "type" in reason else ""
                return f"it failed on a batch of shape {tuple(batch.shape)}: {reason}{hint}"
        return fault_of(answer, len(batch), logits=self._softmax) or self._company(batch)

    def _shareable(self, batch: Tensor) -> bool:
        """Whether two threads that ask the module at once get the answers that each gets alone."""
        net = self._eager()
        if any(isinstance(part, torch.jit.ScriptModule) for part in net.modules()):
            return False  # what it does step by step cannot be seen
        with suppress(Exception):  # what two threads leave in it does no harm to a copy
            net = copy.deepcopy(net)
        rows = batch.chunk(2)

        def ask(some: Tensor) -> Tensor:
            return self._scores(net, some.clone())

        try:
            limits = EXACT if self._precision.low is None else ROUNDED
            alone = answers_apart(ask, rows)
            return all(
                float(apart(found, meant).max()) <= limits.typical / 100
                for together in answers_together(ask, rows)
                for found, meant in zip(together, alone, strict=True)
            )
        except ModelError:
            return False

    def _company(self, batch: Tensor) -> str:
        """Ask again with half of the rows in other places and among others; a row's answer must not change.

        In float32 if the module can be asked so: rounding would hide it.
        """
        rows, strangers = batch.chunk(2)
        half = len(rows) // 2
        low, allowed = False, ROUNDED if self._precision.tensor_float else EXACT
        try:
            first = self._scores(self._net, rows, low=False)[:half]
        except (ModelError, torch.OutOfMemoryError):
            low, allowed = True, ROUNDED
            first = self._scores(self._net, rows)[:half]
        mixed = torch.cat((strangers[half:], rows[:half].flip(0)))
        again = self._scores(self._net, mixed, low=low)[-half:].flip(0)
        change = float(apart(again, first).max())
        answers = float(turned(again, first).max()) if self._softmax else 0.0
        if change <= allowed.typical and answers <= _CHANGE:
            return ""
        change = max(change, answers)
        return (
            f"the answer to one row changes by {change:.2g} of its size with the other rows of the batch (or from call to call), so "
            f"noisy copies would not be independent samples; give batch normalisation running statistics, take randomness out, and "
            f"quantise with fixed ranges, not dynamically"
        )
