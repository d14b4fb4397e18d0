"""Votes for all classes, counted like average scores and on the same copies."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.sampling import CertifyRequest, EstimateRequest, SelectionRequest, VotesRequest
from holdfast.sampling.requests import AnyRequest
from holdfast.sampling.span import Counting
from holdfast.smoothed import SmoothedClassifier
from networks import images, small_net

SIGMA, STEP = 0.25, 2.0**-14


class Certain(nn.Module):
    """Another network's classes, each with probability one: votes are scores."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        best: Tensor = self.net(x).argmax(1)
        return nn.functional.one_hot(best, 4).float()


def answered(request: AnyRequest, net: nn.Module | None = None, *, batch: int = 64) -> AnyRequest:
    outputs = "logits" if net is None else "probabilities"
    smoothed = SmoothedClassifier(net or small_net(), SIGMA, outputs=outputs)
    return next(smoothed.run_requests([request], STEP, batch))


def votes(seed: int, copies: int, *, batch: int = 64) -> np.ndarray:
    x = torch.from_numpy(images(1))[0]
    selection = answered(SelectionRequest(x, seed, 0, copies, 1, Counting.VOTES), batch=batch).answer
    assert selection.averages.sum() == 1.0
    return np.rint(selection.averages * copies).astype(int)  # type: ignore[no-any-return]


def test_votes_are_the_scores_of_a_network_that_is_always_certain() -> None:
    x = torch.from_numpy(images(1))[0]
    certain = answered(SelectionRequest(x, 3, 0, 400, 1), Certain(small_net())).answer
    assert (certain.averages * 400).tolist() == votes(3, 400).tolist()
    assert np.count_nonzero(votes(3, 400)) > 1


@pytest.mark.parametrize("batch", [16, 17, 4_096])
def test_votes_do_not_depend_on_the_batch_size(batch: int) -> None:
    assert votes(5, 5_000, batch=batch).tolist() == votes(5, 5_000).tolist()


def test_a_class_is_never_chosen_by_the_copies_that_are_counted_for_it() -> None:
    x = torch.from_numpy(images(1))[0]
    found = answered(VotesRequest(x, 3, 0, 400, 400)).answer
    chosen, target = found.selection, found.selection.predicted
    assert (chosen.averages * 400).tolist() == votes(3, 400).tolist()
    assert found.evidence == answered(EstimateRequest(x, 3, 0, 1, 400, target)).answer
    assert found.evidence.votes != votes(3, 400)[target]
    usual = answered(CertifyRequest(x, 3, 0, 400, 400)).answer
    assert usual.selection.predicted != target or usual.evidence == found.evidence
