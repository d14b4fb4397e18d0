"""What a review found: networks, measures and modules that were certified wrongly once."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from networks import images, small_net

X = images(1)[0]


class Grouped(nn.Module):
    """Averages rows in groups."""

    def __init__(self, group: int) -> None:
        super().__init__()
        self.net, self.group = small_net(), group

    def forward(self, x: Tensor) -> Tensor:
        own: Tensor = self.net(x)
        groups = own.reshape(-1, self.group, own.shape[1])
        return (groups + groups.mean(1, keepdim=True)).reshape(own.shape)


@pytest.mark.parametrize("batch", [None, 16, 32, 128])
@pytest.mark.parametrize("group", [2, 4, 8])
def test_rows_mixed_in_aligned_groups_are_refused(group: int, batch: int | None) -> None:
    with pytest.raises(hf.ModelError, match="other rows of the batch"):
        hf.SmoothedClassifier(Grouped(group), 0.3, batch=batch).certify(X, n=300)


class Certainty(hf.Measure):
    """NaN as soon as one probability underflows."""

    name = title = "certainty"
    support = (0.0, 1.0)

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        return 1 + (probabilities * probabilities.log()).sum(1) / math.log(probabilities.shape[1])


class Beyond(Certainty):
    """Outside its support."""

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        return probabilities.sum(1) + 1


class Sharp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        return 200 * self.net(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("measure", [Certainty(), Beyond()])
def test_a_measure_that_is_nan_or_outside_its_support_is_refused(measure: hf.Measure) -> None:
    with pytest.raises(hf.ModelError, match=r"the measure certainty must give numbers in \[0, 1\]"):
        hf.SmoothedClassifier(Sharp(), 0.3, measures=(measure,)).certify(X, n=300)


class OnTheClass(nn.Module):
    """Keeps workspaces in a dictionary of its class."""

    spaces: dict[int, Tensor] = {}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        space = self.spaces.setdefault(len(x), torch.empty(len(x), 4))
        space.copy_(self.net(x))
        for _ in range(50):  # long enough for another thread to write
            space.add_(0.0)
        return space.clone()


@pytest.mark.usefixtures("two_threads")
def test_what_a_class_holds_is_each_replicas_own() -> None:
    smoothed, plain = hf.SmoothedClassifier(OnTheClass(), 0.3), hf.SmoothedClassifier(small_net(), 0.3)
    for seed in range(3):
        assert smoothed.certify(X, n=4_000, seed=seed).evidence == plain.certify(X, n=4_000, seed=seed).evidence


class Tied(nn.Module):
    """Keeps a view of a weight beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.last = nn.Linear(4, 4, bias=False)
        self.view = self.last.weight.detach().t()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.net(x)) @ self.view  # type: ignore[no-any-return]


def test_a_view_of_a_weight_follows_it() -> None:
    net = Tied()
    smoothed = hf.SmoothedClassifier(net, 0.3)
    before = smoothed.certify(X, n=500, seed=1).evidence
    with torch.no_grad():
        net.last.weight.copy_(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))
    after = smoothed.certify(X, n=500, seed=1).evidence
    assert after != before
    assert after == hf.SmoothedClassifier(net, 0.3).certify(X, n=500, seed=1).evidence


def test_parameters_that_were_replaced_are_refused_in_words() -> None:
    net = small_net()
    smoothed = hf.SmoothedClassifier(net, 0.3)
    net.load_state_dict(small_net(seed=5).state_dict(), assign=True)
    with pytest.raises(hf.ModelError, match="make a new SmoothedClassifier"):
        smoothed.certify(X, n=300)


def test_one_function_in_two_classifiers_is_run_for_one_caller_at_a_time() -> None:
    net, inside, most = small_net(), [0], [0]

    def function(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        answer: NDArray[np.float32] = net(torch.from_numpy(rows)).detach().numpy()
        inside[0] -= 1
        return answer

    classifiers = [hf.SmoothedClassifier(function, 0.3) for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: classifiers[k % 2].certify(X, n=500, seed=k), range(8)))
    assert most[0] == 1


def test_a_model_that_changes_after_the_check_is_refused() -> None:
    class Warm(hf.Model):
        name, device, calls = "Warm", torch.device("cpu"), 0

        def probabilities(self, batch: Tensor) -> Tensor:
            self.calls += 1
            answer: Tensor = small_net()(batch).softmax(1).detach()
            return answer if self.calls < 3 else answer.flip(1)

    with pytest.raises(hf.ModelError, match="from call to call"):
        hf.SmoothedClassifier(Warm(), 0.3).certify(X, n=300)


def test_a_model_without_a_name_or_a_device_is_refused_before_anything_is_sampled() -> None:
    class Nameless(hf.Model):
        device = torch.device("cpu")

        def probabilities(self, batch: Tensor) -> Tensor:  # noqa: ARG002
            raise AssertionError("nothing may be sampled")

    with pytest.raises(hf.InvalidArgument, match="must set name, a str, and device"):
        hf.SmoothedClassifier(Nameless(), 0.3)
    with pytest.raises(hf.InvalidArgument, match="run it once on a batch first"):
        hf.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), 0.3)
