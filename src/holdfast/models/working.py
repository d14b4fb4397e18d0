"""The module as it is run: a copy laid out for the device, at the precision asked for, compiled if that pays."""

import copy
from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor, nn

from holdfast.models.compiler import afresh, has_wide_convolutions, options_for
from holdfast.models.folded import FoldedConv2d
from holdfast.models.precision import Precision
from holdfast.models.skeleton import skeleton_of

_CASTABLE = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class Manner(Enum):
    """How a module is run."""

    ITSELF = "it is run itself"
    COPIED = "a copy is run"
    CAST = "a copy is run, with weights that were cast to a low precision"


class WorkingCopy:
    """A copy of a module; it is equal to it whenever it was refreshed, and the user's own module is never changed.

    Its convolutions are stored channels last, which is what fast kernels read. Weights of convolutions and linear layers
    are cast to a low precision once, instead of in every forward pass, if that gives the numbers that autocast gives.
    A module that cannot be copied is run as it is.
    """

    def __init__(self, net: nn.Module, precision: Precision, manner: Manner = Manner.COPIED) -> None:
        self._net = net
        self._precision = precision
        self._copy: nn.Module | None = None
        self._own: list[Tensor] = []
        self._compiled: Callable[[Tensor], Tensor] | None = None
        self._skeleton: bytes | None = None
        self.manner = manner

    def stand_back(self) -> None:
        """Run the module itself until its structure changes: its copy does not answer as it does."""
        self.manner, self._copy, self._compiled = Manner.ITSELF, None, None

    def refresh(self, skeleton: bytes | None) -> None:
        """Take over what the user's module is now: all of its weights, and a new copy if its skeleton is another one.

        Weights are copied every time: there is no telling from outside whether they were written to.
        """
        if self._copy is None or skeleton is None or skeleton != self._skeleton:
            # Another structure may compute otherwise with its weights. Where that cannot be told, a copy that was wrong stays so.
            if self._copy is not None and not (skeleton is None and self.manner is Manner.ITSELF):
                self.manner = Manner.COPIED
            # What is copied in inference mode could never be written to again.
            with torch.inference_mode(False):
                self._copy, self._compiled = self._made(), None
                self._own = weights_of(self._copy)
        elif self._copy is not self._net:
            copy_weights(weights_of(self._net), self._own)
        self._skeleton = skeleton

    def settle(self, rows: Tensor) -> None:
        """Try on a few rows whether casting weights once changes nothing, and do so from now on if it does not."""
        if self._precision.low is None or self.manner is Manner.CAST:
            return
        left_alone = self._answer(rows)
        trial = WorkingCopy(self._net, self._precision, Manner.CAST)
        trial.refresh(self._skeleton)
        try:
            same = torch.equal(left_alone, trial._answer(rows))
        except Exception:  # the module computes with its weights in ways of its own
            return
        if same:
            self.manner, self._copy, self._own, self._compiled = Manner.CAST, trial._copy, trial._own, None

    def _answer(self, rows: Tensor) -> Tensor:
        with torch.inference_mode(), self._precision.autocast(rows.device):
            answer: Tensor = self.eager()(rows)
            return answer

    def eager(self) -> nn.Module:
        """The copy, as it was when last refreshed."""
        if self._copy is None:
            self.refresh(skeleton_of(self._net))
        assert self._copy is not None
        return self._copy

    def compiled(self) -> Callable[[Tensor], Tensor]:
        """The same, compiled for batches of one fixed size; the work is done at the first call."""
        if self._compiled is None:
            module = self.eager()
            self._compiled = torch.compile(afresh(module), dynamic=False, options=options_for(module, self._precision))
        return self._compiled

    @property
    def compiled_yet(self) -> Callable[[Tensor], Tensor] | None:
        """The same, if it was asked for before."""
        return self._compiled

    def _made(self) -> nn.Module:
        if self.manner is Manner.ITSELF:
            return self._net
        try:
            made = copy.deepcopy(self._net)
        except Exception:  # foreign code: whatever stops a copy, the module itself still runs
            return self._net
        # A module may copy itself in a way of its own, and share what must not be changed.
        its = {id(each) for each in (*self._net.modules(), *weights_of(self._net))}
        if any(id(each) in its for each in (*made.modules(), *weights_of(made))):
            return self._net
        try:
            made.eval()
        except Exception:  # foreign code as well, if it does more than set flags
            return self._net
        folding = self._precision.low is not None and has_wide_convolutions(made)
        for module in made.modules():
            if self.manner is Manner.CAST and type(module) in _CASTABLE:
                module.to(self._precision.low)
            if type(module) is nn.Conv2d:
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
                if folding and FoldedConv2d.suits(module):
                    module.__class__ = FoldedConv2d
        for parameter in made.parameters():
            if parameter.is_leaf:  # those of a copied TorchScript module are not
                parameter.requires_grad_(False)
        return made


def copy_weights(source: list[Tensor], target: list[Tensor]) -> None:
    """Between the weights of modules of the same skeleton, whatever their devices and types."""
    # One call for all tensors of a kind: a GPU would wait for hundreds of calls.
    alike: dict[tuple[torch.dtype, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
    for theirs, mine in zip(source, target, strict=True):
        some = alike.setdefault((theirs.dtype, mine.dtype), ([], []))
        some[0].append(theirs)
        some[1].append(mine)
    with torch.inference_mode(False), torch.no_grad():
        for sources, targets in alike.values():
            torch._foreach_copy_(targets, sources)


def weights_of(net: nn.Module) -> list[Tensor]:
    """Parameters and buffers, each once, in an order that modules with equal skeletons share."""
    found: dict[int, Tensor] = {}
    for module in net.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                found[id(tensor)] = tensor
    return list(found.values())
