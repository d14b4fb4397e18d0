"""Whether what runs in a module's place, compiled, cast, on another GPU or in a worker, is the module."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from holdfast.models.spot_check import EXACT, ROUNDED, Leeway, Reference, SpotCheck, apart, spot_check, turned
from holdfast.models.working import Manner
from holdfast.sampling.worker import Refusal, Worker
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models import TorchModel
from networks import images, small_net

ROWS = torch.zeros(64, 1)


def scores_of(classes: int = 10, size: float = 1.0, *, seed: int = 0) -> Tensor:
    return size * torch.randn(64, classes, generator=torch.Generator().manual_seed(seed))


def one_row(scores: Tensor) -> Tensor:
    return torch.cat((scores[:-1], scores[:1] + scores[-1:].flip(1)))


@pytest.mark.parametrize("classes", [2, 10, 1_000])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_scores_are_compared_with_their_own_size_whatever_the_number_of_classes(classes: int, size: float) -> None:
    scores = scores_of(classes, size)
    reference = Reference(scores, Leeway(0.05, 0.2))
    assert reference.telling
    assert apart(scores + 7.0 * size, scores).max() == pytest.approx(0, abs=1e-5)
    assert apart(1.02 * scores, scores).mean() == pytest.approx(0.02, rel=0.3)
    assert not reference.fault(1.02 * scores)
    assert "off by" in reference.fault(1.1 * scores)
    assert "one row" in reference.fault(one_row(scores))
    assert "nan" in reference.fault(torch.full_like(scores, torch.nan))
    assert "shape" in reference.fault(scores[:, :-1])
    constant = Reference(torch.zeros(64, classes), Leeway(0.05, 0.2))
    assert not constant.telling
    assert not constant.fault(torch.zeros(64, classes))
    assert constant.fault(scores)


def test_scores_that_change_by_less_than_others_may_be_off_tell_nothing() -> None:
    base, change = torch.arange(10.0), scores_of()
    for share, telling in ((1e-6, False), (EXACT.typical / 2, False), (2 * EXACT.typical, True), (0.1, True)):
        moved = base + share * change * base.sub(base.mean()).norm() / 10**0.5
        assert spot_check(ROWS, moved, None, rounded=False, logits=True).telling is telling


@pytest.mark.parametrize(("rounded", "most"), [(False, 1e-3), (True, 0.1)])
def test_masked_classes_hide_nothing(rounded: bool, most: float) -> None:
    scores, other = scores_of(), scores_of(seed=1)
    scores[:, 0] = other[:, 0] = -1e9
    check = spot_check(ROWS, scores, None, rounded=rounded, logits=True)
    passed = []
    for share in (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
        off = scores + share * other
        near = torch.cat((scores[:, :1], off[:, 1:]), 1)
        assert apart(near, scores).max() < 1e-6
        fault = check.fault(near)
        assert ("probabilities" in fault) is (float(turned(near, scores).mean()) > most)
        passed.append(not fault)
    assert any(passed)
    assert not all(passed)


@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("rounding", [1e-4, 3e-3, 2e-2])
def test_others_may_be_off_by_ten_times_what_rounding_does_and_by_no_more(rounding: float, logits: bool) -> None:
    exact, direction, other = scores_of(), scores_of(seed=1), scores_of(seed=2)
    check = spot_check(ROWS, exact + rounding * direction, exact, rounded=True, logits=logits)
    assert [each.scores is exact for each in check.references] == [True, False]
    leeway = check.references[0].leeway
    off = apart(exact + rounding * direction, exact)
    assert leeway.typical == pytest.approx(10 * off.mean() + EXACT.typical)
    assert leeway.most == pytest.approx(10 * off.max() + EXACT.most)
    # Near the exact scores, though further from the module's own than those may be; and the other way round.
    assert not check.references[0].fault(exact + 7 * rounding * other)
    assert not check.fault(exact + 7 * rounding * other)
    assert check.fault(exact + 60 * (rounding + EXACT.typical) * other)
    one_wrong = exact.clone()
    one_wrong[40] = 3 * other[40]
    assert "off by" in check.fault(one_wrong)


def test_however_much_rounding_does_there_is_a_limit() -> None:
    exact, other = scores_of(), scores_of(seed=1)
    rough = spot_check(ROWS, exact + 0.5 * other, exact, rounded=True, logits=True)
    assert rough.references[0].leeway == Leeway(0.3, 1.0, ROUNDED.answers)
    assert rough.fault(exact + 0.4 * scores_of(seed=2))
    # What the module itself says is never wrong.
    assert not rough.fault(exact + 0.5 * other)
    assert not rough.fault(exact + 0.5 * other + 0.01 * scores_of(seed=3))


def test_the_fixed_limits_are_those_of_the_arithmetic() -> None:
    scores, other = scores_of(1_000), scores_of(1_000, seed=1)
    for rounded, passing, failing in ((False, 5e-4, 2e-3), (True, 2e-2, 5e-2)):
        check = spot_check(ROWS, scores, scores.clone(), rounded=rounded, logits=True)
        assert len(check.references) == 1
        assert not check.fault(scores + passing * other)
        assert check.fault(scores + failing * other)


def test_a_check_is_the_same_elsewhere() -> None:
    check = spot_check(ROWS, scores_of() + 0.01, scores_of(), rounded=True, logits=True)
    sent: SpotCheck = pickle.loads(pickle.dumps(check.cpu()))
    for scores in (scores_of(), scores_of(seed=1)):
        assert sent.fault(scores) == check.fault(scores)


FAULTS: dict[str, Callable[[Tensor], Tensor]] = {
    "other classes": lambda scores: scores.flip(1),
    "less sure": lambda scores: 0.8 * scores,
    "the last row": one_row,
    "a constant": lambda scores: scores.mean(0, keepdim=True).expand_as(scores),
}


class Surely(nn.Module):
    """Softmax in float32."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float().softmax(1)


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("classes", [2, 10, 1_000])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_network_that_answers_otherwise_when_compiled_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, fault: str, classes: int, precision: str, outputs: str
) -> None:
    torch.manual_seed(0)
    # Dead where inputs are small, sure of itself where they are not.
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, classes))
    with torch.no_grad():
        net[1].bias.sub_(20.0)  # type: ignore[operator]
    if outputs == "probabilities":
        net.append(Surely())
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: FAULTS[fault](forward(batch)))
    smoothed = hf.SmoothedClassifier(net, 30.0, compile=True, precision=precision, outputs=outputs, inputs="any")
    with pytest.warns(RuntimeWarning, match="runs uncompiled.*off by"):
        cert = smoothed.certify(100 * torch.rand(3, 2, 2), n=200)
    assert not cert.provenance.compiled


def test_any_of_a_large_batchs_rows_may_be_the_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(scores: Tensor) -> Tensor:
        return torch.cat((scores[:900], scores[900:].flip(1)))

    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: late(forward(batch)))
    with pytest.warns(RuntimeWarning, match="runs uncompiled.*off by"):
        hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(images(1)[0], n=2_000, batch=1_000)


def test_what_was_compiled_is_compared_with_float32_not_with_its_own_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler may round less than the module does, and is right to."""

    def unrounded(forward: nn.Module, **_: object) -> Callable[[Tensor], Tensor]:
        def answer(batch: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                return batch.flatten(1) @ last.weight.T

        return answer

    torch.manual_seed(0)
    last = nn.Linear(12, 8, bias=False)
    net = nn.Sequential(nn.Flatten(), last)
    with torch.no_grad():
        last.weight.add_(8.0)  # all that tells classes apart is near the last bits
    monkeypatch.setattr(torch, "compile", unrounded)
    smoothed = hf.SmoothedClassifier(net, 0.3, compile=True, precision="bfloat16")
    assert smoothed.certify(torch.rand(3, 2, 2), n=200).provenance.compiled


def test_what_was_compiled_is_not_asked_before_it_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: 0 * forward(batch))
    model = TorchModel(small_net(), compiled=True)
    rows = torch.rand(8, 1, 6, 6)
    with model.prepared():
        ask = model.asking(rows.shape)
        model._working.compiled()  # as another thread may, meanwhile
        assert not torch.allclose(ask(rows), torch.full((8, 4), 0.25))
        assert not torch.allclose(model.probabilities(rows), torch.full((8, 4), 0.25))


@pytest.mark.parametrize("size", [0.0, 1e-7])
def test_a_constant_answer_compares_nothing(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(-batch))
    last = nn.Linear(12, 3)
    with torch.no_grad():
        last.weight.mul_(size)
    smoothed = hf.SmoothedClassifier(nn.Sequential(nn.Flatten(), last), 0.3, compile=True)
    smoothed.certify(torch.rand(3, 2, 2), n=200)
    nn.init.normal_(last.weight)
    with pytest.warns(RuntimeWarning, match="runs uncompiled.*off by"):
        smoothed.certify(torch.rand(3, 2, 2), n=200)


class OtherWhenCopied(nn.Module):
    """Copies itself wrongly."""

    def __init__(self, sign: float = 1.0) -> None:
        super().__init__()
        self.net = small_net()
        self.sign = sign

    def __deepcopy__(self, memo: dict[int, object]) -> "OtherWhenCopied":
        other = OtherWhenCopied(-self.sign)
        other.net.load_state_dict(self.net.state_dict())
        return other

    def forward(self, x: Tensor) -> Tensor:
        return self.sign * self.net(x)  # type: ignore[no-any-return]


def test_a_module_whose_copy_answers_otherwise_is_run_itself_here_and_in_workers() -> None:
    net, x = OtherWhenCopied(), images(1)[0]
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    cert = smoothed.certify(x, n=500, seed=1)
    assert (
        cert.evidence
        == hf.SmoothedClassifier(small_net_of(net), 0.3, precision="bfloat16").certify(x, n=500, seed=1).evidence
    )
    model = smoothed._model
    assert isinstance(model, TorchModel)
    assert model._working.manner is Manner.ITSELF
    worker = Worker(pickle.dumps(model), (), "cpu", 1, model.spot_check())
    assert worker.load() is None


def small_net_of(net: OtherWhenCopied) -> nn.Module:
    return net.net


def test_a_worker_whose_model_is_another_is_refused() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, precision="bfloat16")
    smoothed.certify(images(1)[0], n=300)
    model = smoothed._model
    assert isinstance(model, TorchModel)
    packed, check = pickle.dumps(model), model.spot_check()
    assert Worker(packed, (), "cpu", 1, check).load() is None
    assert check is not None
    wrong = SpotCheck(check.rows, tuple(Reference(each.scores.flip(1), each.leeway) for each in check.references))
    refusal = Worker(packed, (), "cpu", 1, wrong).load()
    assert isinstance(refusal, Refusal)
    assert "otherwise on a worker than here (class scores are off by" in str(refusal.error)


def test_scores_far_from_zero_are_no_reason_to_refuse_a_worker() -> None:
    """Rounding alone takes the scores of some models far from their float32 ones; the same model does it alike."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    with torch.no_grad():
        net[1].bias.add_(300.0)  # type: ignore[operator]
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    smoothed.certify(images(1)[0], n=300)
    model = smoothed._model
    assert isinstance(model, TorchModel)
    check = model.spot_check()
    assert check is not None
    assert check.references[0].leeway.typical == 0.3
    assert check.references[0].fault(model.scores(check.rows))
    assert model._working.manner is not Manner.ITSELF
    assert Worker(pickle.dumps(model), (), "cpu", 1, check).load() is None


@pytest.mark.parametrize("wrong", [True, False])
def test_the_model_on_a_further_gpu_is_compared_with_the_first(monkeypatch: Any, wrong: bool) -> None:
    net = OtherWhenCopied() if wrong else small_net()
    model = TorchModel(net)
    model.look()
    assert model.complaint(torch.rand(128, 1, 6, 6)) == ""
    monkeypatch.setattr(model, "_everywhere", True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    def elsewhere(_: torch.device) -> TorchModel:
        """A GPU is not needed to see it."""
        other = TorchModel.__new__(TorchModel)
        other.__setstate__({**model.__getstate__(), "_net": copy.deepcopy(net), "_everywhere": False})
        return other

    monkeypatch.setattr(model, "moved", elsewhere)
    if not wrong:
        assert len(model.replicas()) == 1
        return
    with pytest.raises(ModelError, match=r"answers otherwise on cpu than on cpu .*use one GPU"):
        model.replicas()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_row_that_depends_on_others_by_less_than_rounding_is_noticed_all_the_same(precision: str) -> None:
    class Company(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            own: Tensor = self.net(x).float()
            return own + 0.02 * own.std(0, keepdim=True) * x[:1, 0, 0, 0].sign()

    with pytest.raises(ModelError, match="other rows of the batch"):
        hf.SmoothedClassifier(Company(), 0.3, precision=precision).certify(images(1)[0] - 0.5, n=300)


def test_what_was_compiled_of_a_module_that_has_changed_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(batch))
    net = nn.Sequential(small_net())
    smoothed = hf.SmoothedClassifier(net, 0.3, compile=True)
    for _ in range(3):
        smoothed.certify(images(1)[0], n=300)
        net.append(nn.Identity())
    model = smoothed._model
    assert isinstance(model, TorchModel)
    assert len(model._warm) == 1


def test_another_threads_compiling_is_not_taken_for_a_module_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter((1, 2, 2, 2))
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(batch))
    monkeypatch.setattr("holdfast.models.torch_model.versions_of", lambda _: next(versions))
    cert = hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(images(1)[0], n=300)
    assert cert.provenance.compiled
    assert next(versions, None) is None


class Nameless(OtherWhenCopied):
    """What it is cannot be told from what it was."""

    def __init__(self, sign: float = 1.0) -> None:
        super().__init__(sign)
        self.nameless = lambda: None


def test_a_copy_that_was_wrong_is_not_run_again_where_changes_cannot_be_told() -> None:
    net, x = Nameless(), images(1)[0]
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    meant = hf.SmoothedClassifier(net.net, 0.3, precision="bfloat16")
    model = smoothed._model
    assert isinstance(model, TorchModel)
    for seed in range(3):
        assert smoothed.certify(x, n=300, seed=seed).evidence == meant.certify(x, n=300, seed=seed).evidence
        model.refresh()  # as another thread may, at any time
        assert model._working.manner is Manner.ITSELF


def test_a_module_whose_structure_changed_may_be_copied_again() -> None:
    net = OtherWhenCopied()
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    smoothed.certify(images(1)[0], n=300)
    model = smoothed._model
    assert isinstance(model, TorchModel)
    assert model._working.manner is Manner.ITSELF
    net.__class__ = RightWhenCopied
    smoothed.certify(images(1)[0], n=300)
    assert model._working.manner.name == "CAST"


class RightWhenCopied(OtherWhenCopied):
    """The same, mended."""

    def __deepcopy__(self, memo: dict[int, object]) -> "RightWhenCopied":
        other = RightWhenCopied(self.sign)
        other.net.load_state_dict(self.net.state_dict())
        return other


def test_a_module_whose_copy_fails_is_run_itself() -> None:
    class Particular(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv = nn.Conv2d(2, 8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :18] @ self.conv.weight.view(8, -1).T.float()

    x = torch.rand(2, 6, 6)
    found = hf.SmoothedClassifier(Particular(), 0.3, precision="bfloat16", inputs="any").certify(x, n=300, seed=1)
    assert found.provenance.precision == "bfloat16"


def test_only_what_was_compared_counts_as_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may make everything anew while it is compared."""
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(batch))
    model = TorchModel(small_net(), compiled=True)
    compiled = model._working.compiled
    rows = torch.rand(64, 1, 6, 6)

    def meanwhile(forward: Any, batch: Tensor) -> tuple[Tensor, bool]:
        found = model._scores(forward, batch), True
        model._working.refresh(None)
        return found

    monkeypatch.setattr(model, "_steady_answers", meanwhile)
    with model.prepared():
        first = compiled()
        model.warm(rows.shape, lambda: rows)
        assert [forward for _, forward in model._warm] == [first]
        assert compiled() is not first
        assert (rows.shape, model._working.compiled_yet) not in model._warm


def test_what_is_compared_is_what_runs_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def later_wrong(forward: nn.Module, **_: object) -> Callable[[Tensor], Tensor]:
        calls = []

        def answer(batch: Tensor) -> Tensor:
            calls.append(len(batch))
            scores: Tensor = forward(batch)
            return scores if len(calls) == 1 else scores.flip(1)

        return answer

    monkeypatch.setattr(torch, "compile", later_wrong)
    with pytest.warns(RuntimeWarning, match="runs uncompiled.*off by"):
        hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(images(1)[0], n=300)


def test_a_comparison_that_could_not_tell_is_made_again_and_again_but_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(batch))
    last = nn.Linear(12, 3)
    nn.init.zeros_(last.weight)
    model = TorchModel(nn.Sequential(nn.Flatten(), last), compiled=True)
    rows = torch.rand(64, 3, 2, 2)
    drawn: list[int] = []
    asked: list[int] = []
    model.look()
    model.refresh()

    def draw() -> Tensor:
        drawn.append(len(asked))
        return rows

    def ask(times: int) -> None:
        for _ in range(times):
            asked.append(1)
            model.warm(rows.shape, draw)

    with model.prepared():
        ask(19)
        assert drawn == [1, 2, 4, 8, 16]
        with torch.no_grad():
            last.bias.add_(1.0)
        model.refresh()
        ask(1)
        assert drawn[-1] == 20
        nn.init.normal_(last.weight)
        model.refresh()
        ask(20)
        assert drawn[-1] == 21


def test_one_unsure_row_among_sure_ones_is_not_lost_in_the_average() -> None:
    scores = 100 * scores_of()
    scores[5] /= 100
    off = scores.clone()
    off[5] = 1.5 * scores[5].flip(0)
    check = spot_check(ROWS, scores, None, rounded=True, logits=True)
    assert float(turned(off, scores)[5]) > 0.5
    assert "probabilities of one row" in check.fault(off)
