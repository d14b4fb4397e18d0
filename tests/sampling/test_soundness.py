"""What a review found: networks, measures and modules that were certified wrongly once."""

import copy
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from holdfast.models import TorchModel
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


class Halved(hf.Measure):
    """The score in a type that NumPy has not, or in one that it has."""

    title = "halved"
    support = (0.0, 1.0)

    def __init__(self, dtype: torch.dtype) -> None:
        self.name, self.dtype = str(dtype).removeprefix("torch."), dtype

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:
        score = probabilities.gather(1, target[:, None])[:, 0]
        return score.bfloat16().to(self.dtype)


def test_a_measure_may_be_in_bfloat16() -> None:
    measures = Halved(torch.bfloat16), Halved(torch.float64)
    found = hf.SmoothedClassifier(small_net(), 0.3, measures=measures).certify(X, n=300).evidence
    assert found["bfloat16"].counts.tolist() == found["float64"].counts.tolist()


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


class Now(nn.Module):
    """Answers otherwise at every so many calls."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.net, self.period, self.calls = small_net(), period, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = self.net(x)
        return answer.flip(1) if self.calls % self.period == 0 else answer


@pytest.mark.parametrize("period", [3, 4, 7, 10])
def test_a_model_that_answers_otherwise_now_and_then_is_refused_every_time(period: int) -> None:
    smoothed = hf.SmoothedClassifier(Now(period), 0.3)
    for seed in range(3):
        with pytest.raises(hf.ModelError, match="from call to call"):
            smoothed.certify(X, n=1_000, seed=seed)


class InPlace(nn.Module):
    """Normalises its batch where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        x -= 0.5
        x /= 0.25
        return self.net(x)  # type: ignore[no-any-return]


class Normalised(InPlace):
    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - 0.5) / 0.25)  # type: ignore[no-any-return]


def test_a_module_may_write_into_its_batch() -> None:
    found, meant = (hf.SmoothedClassifier(net, 0.3).certify(X, n=1_000, seed=1) for net in (InPlace(), Normalised()))
    assert found.evidence == meant.evidence


def test_buffers_that_were_replaced_are_refused_in_words() -> None:
    net = nn.Sequential(nn.BatchNorm2d(1), small_net()).eval()
    smoothed = hf.SmoothedClassifier(net, 0.3)
    smoothed.certify(X, n=300)
    net[0].running_mean = torch.ones(1)
    with pytest.raises(hf.ModelError, match="make a new SmoothedClassifier"):
        smoothed.certify(X, n=300)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_replicas_weights_are_the_modules_at_its_precision(precision: str) -> None:
    net = nn.Sequential(nn.LayerNorm(6), nn.Flatten(), nn.Linear(36, 8), nn.LayerNorm(8), nn.Linear(8, 4))
    model = TorchModel(net, precision=precision)
    replica = model.replicate(torch.device("cpu"))
    assert replica is not None
    with torch.no_grad():
        for k, parameter in enumerate(net.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(k)))
    replica.refresh()
    pairs = list(zip(replica.forward.parameters(), net.parameters(), strict=True))  # type: ignore[union-attr]
    assert {mine.dtype for mine, _ in pairs} == {torch.float32, getattr(torch, precision)}
    assert all(torch.equal(mine, theirs.to(mine.dtype)) for mine, theirs in pairs)


def test_the_default_type_of_torch_changes_nothing() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    meant = smoothed.certify(X, n=500, seed=1)
    torch.set_default_dtype(torch.float64)
    try:
        assert smoothed.certify(X, n=500, seed=1) == meant
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_copied_classifier_is_one() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    assert copy.deepcopy(smoothed).certify(X, n=500, seed=1) == smoothed.certify(X, n=500, seed=1)


@pytest.mark.parametrize("index", [1.5, True, "a", None, -1])
def test_an_index_is_a_whole_number(index: object) -> None:
    with pytest.raises(hf.InvalidArgument, match="index must be"):
        hf.SmoothedClassifier(small_net(), 0.3).certify(X, n=300, index=index)  # type: ignore[arg-type]


class Every(Certainty):
    """One number for each class, not for each row."""

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        return probabilities


def test_a_measure_that_does_not_give_a_number_for_each_row_is_refused_in_words() -> None:
    with pytest.raises(hf.ModelError, match="the measure certainty must return a tensor with one number for each row"):
        hf.SmoothedClassifier(small_net(), 0.3, measures=(Every(),)).certify(X, n=300)


class Mixed(Certainty):
    """The average of the batch: samples of it are hardly ever far from their mean."""

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:
        return super().__call__(probabilities, target).mean().expand(len(probabilities))


class Scaled(Certainty):
    """By the surest row of all, where one is sure."""

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:
        found = super().__call__(probabilities, target)
        return found / found.amax().clamp(min=0.999)


class Squeezed(Certainty):
    """Of that row only."""

    def __call__(self, probabilities: Tensor, target: Tensor) -> Tensor:
        return probabilities.gather(1, target[:, None]).squeeze()


def test_a_measure_that_depends_on_the_other_rows_is_refused() -> None:
    for mixed in (Mixed(), Scaled()):
        with pytest.raises(hf.ModelError, match="another number beside itself than among others"):
            hf.SmoothedClassifier(small_net(), 0.3, measures=(mixed,)).certify(X, n=300)
    hf.SmoothedClassifier(small_net(), 0.3, measures=(Squeezed(),)).certify(X, n=300)
