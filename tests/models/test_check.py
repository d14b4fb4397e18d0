"""The one check of a model, at the batch size in use: what is refused, in which words, and what it costs."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models.check import SAME, Tolerance, difference
from networks import images, small_net

X = images(1)[0]
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "bfloat16"])
DEPENDENT = "the answer to one row changes with the other rows of the batch, or from call to call"

ROWS: list[int] = []
"""Of the batches that networks below were given."""


class Changed(nn.Module):
    """A network whose answers are changed."""

    mean: Tensor
    buffer: Tensor

    def __init__(self, change: str) -> None:
        super().__init__()
        self.net, self.change, self.calls, self.mean = small_net(), change, 0, torch.zeros(4)
        self.register_buffer("buffer", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        ROWS.append(len(x))
        self.calls += 1
        return CHANGES[self.change](self, self.net(x).float(), x)


def drift(net: Changed, scores: Tensor, place: str) -> Tensor:
    mean: Tensor = 0.9995 * getattr(net, place) + 0.0005 * scores.mean(0)
    setattr(net, place, mean)
    return scores - mean


CHANGES: dict[str, Callable[[Changed, Tensor, Tensor], Tensor]] = {
    "mixes from 32 rows on": lambda _, scores, __: scores + 0.3 * scores.mean(0) if len(scores) >= 32 else scores,
    "mixes by less than bfloat16 rounds": lambda _, scores, __: scores + 0.01 * scores.mean(0),
    "first row": lambda _, scores, x: scores + 0.2 * scores.std(0) * x[0, 0, 0, 0],
    "counts calls": lambda net, scores, _: scores * (1 + 0.001 * net.calls),
    "turns late": lambda net, scores, _: scores if net.calls < 20 else scores.flip(1),
    "drifts": lambda net, scores, _: drift(net, scores, "mean"),
    "drifts in a buffer": lambda net, scores, _: drift(net, scores, "buffer"),
    "nothing": lambda _, scores, __: scores,
    "records": lambda net, scores, _: scores + 0 * net.buffer.copy_(scores.amax(0)),
}


class AlwaysOn(nn.Dropout):
    """Left on by a train() of its own."""

    def train(self, mode: bool = True) -> "AlwaysOn":  # noqa: ARG002
        return super().train(True)


class Mask(nn.Module):
    """Adds classes that are never answered."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((3 * x, torch.full_like(x, -1e9)), 1)


def network(*first: nn.Module, classes: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 36), *first, nn.Linear(36, classes))


MIXING: dict[str, Callable[[], nn.Module]] = {
    **{change: partial(Changed, change) for change in CHANGES if change not in ("nothing", "records")},
    "dropout": lambda: network(nn.ReLU(), AlwaysOn(0.5)),
    "dropout, untrained": lambda: network(nn.ReLU(), AlwaysOn(0.5), classes=1_000),
    "no statistics": lambda: network(nn.BatchNorm1d(36, track_running_stats=False)),
    "no statistics, untrained": lambda: network(nn.BatchNorm1d(36, track_running_stats=False), classes=1_000),
    "masked": lambda: network(nn.BatchNorm1d(36, track_running_stats=False)).append(Mask()),
}


@PRECISIONS
@pytest.mark.parametrize("kind", MIXING)
def test_rows_that_depend_on_their_company_or_on_the_number_of_calls_are_refused(kind: str, precision: str) -> None:
    with pytest.raises(ModelError, match=DEPENDENT):
        hf.SmoothedClassifier(MIXING[kind](), 0.3, precision=precision).certify(X, n=3_000, seed=1)


def test_a_network_that_mixes_rows_only_in_large_batches_is_certified_in_small_ones() -> None:
    smoothed = hf.SmoothedClassifier(Changed("mixes from 32 rows on"), 0.3)
    found = smoothed.certify(X, n=500, seed=1, batch=16)
    assert found.evidence == hf.SmoothedClassifier(small_net(), 0.3).certify(X, n=500, seed=1).evidence
    ROWS.clear()
    with pytest.raises(ModelError, match=DEPENDENT):
        smoothed.certify(X, n=5_000, seed=1, batch=32)
    assert len(ROWS) <= 3  # before the first batch


@pytest.mark.usefixtures("two_threads")
@PRECISIONS
def test_every_worker_is_checked_after_its_last_batch_and_over_several_calls(precision: str) -> None:
    with pytest.raises(ModelError, match=DEPENDENT):
        hf.SmoothedClassifier(Changed("turns late"), 0.3, precision=precision).certify(X, n=5_000, seed=1)
    smoothed = hf.SmoothedClassifier(Changed("turns late"), 0.3)
    smoothed.certify(X, n=500, seed=1)
    with pytest.raises(ModelError, match=DEPENDENT):
        smoothed.certify_many(np.repeat(X[None], 40, axis=0), n=500, seed=1)


@PRECISIONS
def test_a_module_that_writes_to_its_buffers_is_refused_before_sampling(precision: str) -> None:
    with pytest.raises(ModelError, match=r"writes to its own parameters or buffers.*switch off what it records"):
        hf.SmoothedClassifier(Changed("records"), 0.3, precision=precision).certify(X, n=300)


@pytest.mark.parametrize(("precision", "before"), [("float32", [8, 64]), ("bfloat16", [8, 64, 64])])
def test_at_most_three_forward_passes_happen_before_the_first_batch(precision: str, before: list[int]) -> None:
    smoothed = hf.SmoothedClassifier(Changed("nothing"), 0.3, precision=precision)
    for expected in (before, []):
        ROWS.clear()
        smoothed.certify(X, n=500, n0=12)
        assert [*expected, *[64] * 9] == ROWS  # 512 copies, and the check once more


class Sums(nn.Module):
    """Two classes whose probabilities sum to 1.0008: .5003 and .5005 on average, and each is ahead in half of all copies."""

    def forward(self, x: Tensor) -> Tensor:
        turn = torch.where(x[:, 0] > 0, 0.00015, -0.00015)
        return torch.stack((0.5003 + turn, 0.5005 - turn), 1)


def test_rows_that_sum_to_more_than_one_make_nobody_a_winner() -> None:
    smoothed = hf.SmoothedClassifier(Sums(), 1.0, outputs="probabilities", batch=4_096)
    found = smoothed.certify_many(np.zeros((60, 1), np.float32), n=20_000, n0=1, alpha=0.05, seed=1)
    second = [cert for cert in found if cert.predicted == 0]
    assert 10 <= len(second) <= 50
    assert all(cert.abstained for cert in second)


@pytest.mark.parametrize("bad", [1.0012, 0.9988, float("nan"), float("inf"), -1.0])
def test_rows_that_are_not_probabilities_in_some_noisy_copies_are_refused(bad: float) -> None:
    class Rarely(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first = torch.where(x[:, 0] > 2.5, bad - 0.25, 0.75)
            return torch.stack((first, torch.full_like(first, 0.25)), 1)

    with pytest.raises(
        ModelError, match=r"rows that are not probabilities for some noisy copies.*no certificate was made"
    ):
        hf.SmoothedClassifier(Rarely(), 1.0, outputs="probabilities").certify(np.zeros(1, np.float32), n=3_000, seed=1)


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_probabilities_rounded_to_bfloat16_are_refused(outputs: str) -> None:
    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (7 * x.flatten(1)).softmax(1).bfloat16()

    with pytest.raises(ModelError, match="rounding of bfloat16"):
        hf.SmoothedClassifier(Rounded(), 0.3, outputs=outputs).certify(X, n=500)


def test_rows_that_only_fill_a_batch_cannot_spoil_it() -> None:
    class Unit(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            answer: Tensor = (flat / flat.norm(dim=1, keepdim=True))[:, :4]
            return answer

    assert hf.SmoothedClassifier(Unit(), 0.3, batch=64).certify(X, n=100, n0=50, seed=1).n == 100


@pytest.mark.parametrize("classes", [2, 10, 1_000])
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_answers_are_compared_with_their_own_size_whatever_the_number_of_classes(classes: int, size: float) -> None:
    scores = size * torch.randn(64, classes, generator=torch.Generator().manual_seed(0)).double()
    reference = scores.softmax(1)

    def fault(other: Tensor) -> str:
        return difference(other.softmax(1), reference, Tolerance(0.05, 0.2, 1.0))

    assert not fault(1.02 * scores + 7.0)
    assert "class scores are off by" in fault(1.1 * scores)
    assert "one row" in fault(torch.cat((scores[:-1], scores[-1:].flip(1))))
    assert "off by nan" in fault(torch.full_like(scores, torch.nan))
    assert "shape" in fault(scores[:, :-1])
    constant = torch.full_like(reference, 1 / classes)
    assert not difference(constant, constant, SAME)
    assert difference(reference, constant, SAME)


def test_one_unsure_row_among_sure_ones_is_not_lost_in_the_average() -> None:
    sure = 25 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
    sure[5] /= 100
    other = sure.clone()
    other[5] = -30 * sure[5]
    fault = difference(other.softmax(1), sure.softmax(1), Tolerance(1.0, 10.0, 1.0))
    assert "probabilities of one row are off by" in fault
