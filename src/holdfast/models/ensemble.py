"""Ensembles: several networks that average their class probabilities, as one network."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument, ModelError
from holdfast.models.outputs import as_probabilities, check_outputs, output_error, scores_of


class Ensemble(nn.Module):
    """Averages the class probabilities of its members, and returns the logarithms: logits, whatever the members return.

    It is a module like any other, so that whatever holds for a module holds for it: its members' weights are its own. Members
    may be of different architectures; they answer the same batch with the same classes, in the same order. A member that is
    given twice counts twice.

    Parameters:
        members: modules that map a batch to class scores.
        outputs: what the members return, ``"logits"`` or ``"probabilities"``; it is checked of each before sampling.
    """

    def __init__(self, members: Iterable[nn.Module], *, outputs: str = "logits") -> None:
        super().__init__()
        if isinstance(members, nn.Sequential) or not isinstance(members, Iterable):
            parts = ", whose parts are layers" if isinstance(members, nn.Sequential) else ""
            raise InvalidArgument(
                f"an Ensemble takes a list of networks, such as [net_a, net_b], got one {type(members).__name__}{parts}"
            )
        found = list(members)
        if not found:
            raise InvalidArgument("an Ensemble needs at least one torch.nn.Module, got none")
        for each in found:
            if not isinstance(each, nn.Module):
                raise InvalidArgument(
                    f"an Ensemble averages torch.nn.Modules, got {type(each).__name__}; for anything else, certify a function "
                    f"that averages, such as the predict_proba of scikit-learn's VotingClassifier"
                )
        self.members = nn.ModuleList(found)
        self.average = _Average(logits=check_outputs(outputs))

    def forward(self, batch: Tensor) -> Tensor:
        """Logarithms of the averages."""
        answer: Tensor = self.average([scores_of(member(batch)) for member in self.members])
        return answer


class _Average(nn.Module):
    """Logarithms of the average probabilities, in float32; a zero becomes float32's smallest normal number."""

    def __init__(self, *, logits: bool) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, answers: list[Tensor]) -> Tensor:
        """Of one answer for each member."""
        shapes = [tuple(each.shape) for each in answers]
        if any(each != shapes[0] for each in shapes):
            raise ModelError(
                f"the members of an Ensemble must have the same classes, got answers of the shapes {', '.join(map(str, shapes))}"
            )
        mean = torch.stack([as_probabilities(each, logits=self.logits) for each in answers]).mean(0)
        return mean.clamp_min(torch.finfo(torch.float32).tiny).log()


@contextmanager
def checked_members(net: nn.Module) -> Iterator[None]:
    """Within it, a member of any ensemble in a module is refused in words if its answer is not a classifier's.

    The average alone does not tell: the softmax of probabilities looks right, too.
    """

    def check(average: nn.Module, given: tuple[Any, ...]) -> None:
        for number, answer in enumerate(given[0], 1):
            rows = len(answer) if isinstance(answer, Tensor) and answer.ndim else 0
            fault = output_error(answer, rows, logits=bool(average.logits))
            if fault:
                raise ModelError(f"member {number} of the Ensemble cannot be averaged: {fault}")

    averages = [module for module in net.modules() if isinstance(module, _Average)]
    handles = [average.register_forward_pre_hook(check) for average in averages]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
