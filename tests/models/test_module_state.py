"""What certificates are about when modules change, keep notes, are shared, or cannot be compiled."""

import copy
import os
import shutil
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from holdfast.models.evaluation import evaluating
from holdfast.models.precision import precision_named
from holdfast.models.skeleton import fingerprint, skeleton_of
from holdfast.models.working import Manner, WorkingCopy
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models import TorchModel
from networks import images, small_net

CPU = torch.device("cpu")
X = images(1)[0]


class Watched(nn.Module):
    """A network with dropout that remembers in which mode it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.BatchNorm2d(1), small_net(), nn.Dropout(0.5))
        self.modes: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.modes.add(self.net[2].training)
        answer: Tensor = self.net(x)
        return answer


def test_a_module_in_training_mode_whose_compilation_fails_is_still_run_in_evaluation_mode(monkeypatch: Any) -> None:
    def broken(*_: object, **__: object) -> object:
        def fail(_: Tensor) -> Tensor:
            raise RuntimeError("no compiler here")

        return fail

    net = Watched().train()
    before = copy.deepcopy(net.state_dict())
    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        found = hf.SmoothedClassifier(net, 0.3, compile=True).certify(X, n=500, seed=1)
    assert net.modes == {False}
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert found.evidence == hf.SmoothedClassifier(net.eval(), 0.3).certify(X, n=500, seed=1).evidence


def test_a_backbone_that_two_networks_share_is_in_evaluation_mode_until_both_are_done() -> None:
    backbone = nn.Dropout().train()
    one, two = nn.Sequential(backbone), nn.Sequential(backbone, nn.ReLU())
    with ExitStack() as later:
        with evaluating(one):
            later.enter_context(evaluating(two))
            assert not backbone.training
        assert not backbone.training
    assert all(module.training for module in (backbone, one, two[1]))


class Head(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_a_method_that_was_replaced_is_noticed(monkeypatch: Any) -> None:
    net = nn.Sequential(small_net(), Head())
    seen, known = skeleton_of(net), fingerprint(net)
    assert skeleton_of(net) == seen
    monkeypatch.setattr(Head, "forward", lambda _, x: -x)
    assert skeleton_of(net) != seen
    assert fingerprint(net) == known
    other = skeleton_of(net)
    hook = nn.modules.module.register_module_forward_pre_hook(lambda *_: None)
    assert skeleton_of(net) != other
    hook.remove()
    assert skeleton_of(net) == other


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs a C++ compiler")
def test_a_compiled_network_follows_a_method_that_was_replaced(monkeypatch: Any) -> None:
    net = nn.Sequential(small_net(), Head())
    smoothed = hf.SmoothedClassifier(net, 0.3, compile=True)
    first = smoothed.certify(X, n=300, seed=1)
    monkeypatch.setattr(Head, "forward", lambda _, x: x.flip(1))
    second = smoothed.certify(X, n=300, seed=1)
    assert second.predicted == 3 - first.predicted


class Notes(nn.Module):
    """Keeps what it works with on itself, and reads it again."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.hidden = x
        self.calls += 1
        threading.Event().wait(0.002)
        answer: Tensor = self.net(self.hidden)
        return answer


@pytest.mark.usefixtures("two_threads")
def test_a_module_that_keeps_notes_is_asked_by_one_thread_at_a_time() -> None:
    net = small_net()
    expected = hf.SmoothedClassifier(net, 0.3).certify(X, n=2_000, seed=1)
    for precision in ("float32", "bfloat16"):
        smoothed = hf.SmoothedClassifier(Notes(net), 0.3, precision=precision)
        found = smoothed.certify(X, n=2_000, seed=1)
        assert not smoothed._model.reentrant
        if precision == "float32":
            assert found.evidence == expected.evidence
    plain = hf.SmoothedClassifier(net, 0.3)
    plain.certify(X, n=300, seed=1)
    assert plain._model.reentrant


@pytest.mark.parametrize("note", ["a tensor in place", "a list", "a dictionary"])
def test_notes_are_noticed_wherever_they_are_kept(note: str) -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()
            self.kept: Any = {"a tensor in place": torch.zeros(1), "a list": [], "a dictionary": {}}[note]

        def forward(self, x: Tensor) -> Tensor:
            if note == "a tensor in place":
                self.kept.fill_(1.0)
            elif note == "a list":
                self.kept.append(x)
            else:
                self.kept["x"] = x
            answer: Tensor = self.net(x)
            return answer

    model = TorchModel(Keeps())
    assert model.complaint(torch.rand(16, 1, 6, 6)) == ""
    assert not model.reentrant


def test_counting_calls_costs_no_threads() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.calls = small_net(), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            answer: Tensor = self.net(x)
            return answer

    model = TorchModel(Counts())
    assert model.complaint(torch.rand(16, 1, 6, 6)) == ""
    assert model.reentrant


class Observer(nn.Module):
    """Records what it sees in a buffer, in evaluation mode too."""

    largest: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.largest.copy_(x.max())
        answer: Tensor = self.net(x)
        return answer


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_module_that_writes_to_its_buffers_is_refused_before_sampling(precision: str) -> None:
    with pytest.raises(ModelError, match="writes to its own parameters, buffers"):
        hf.SmoothedClassifier(Observer(), 0.3, precision=precision).certify(X, n=300)


def test_weights_that_change_while_they_are_sampled_give_no_certificate() -> None:
    net = small_net()
    smoothed = hf.SmoothedClassifier(net, 0.3)
    smoothed.certify(X, n=300)
    begun = threading.Event()
    handle = net.register_forward_hook(begin := Begin(begun))
    with ThreadPoolExecutor(1) as pool:
        certifying = pool.submit(smoothed.certify, X, n=40_000)
        begin.watch = True
        assert begun.wait(20)
        with torch.no_grad():
            next(net.parameters()).neg_()
        begin.go.set()
        with pytest.raises(ModelError, match="written to while it was sampled"):
            certifying.result()
    handle.remove()
    assert smoothed.certify(X, n=300).evidence.n == 300


class Begin:
    """A hook that says when sampling is under way, and then waits."""

    def __init__(self, begun: threading.Event) -> None:
        self.begun, self.go, self.watch = begun, threading.Event(), False

    def __call__(self, _: nn.Module, arguments: tuple[Tensor, ...], __: Tensor) -> None:
        if self.watch and len(arguments[0]) > 16:
            self.begun.set()
            self.go.wait(20)


def test_probabilities_are_nobody_elses_memory() -> None:
    class Keeps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.out = x.flatten(1).softmax(1)
            return self.out

    net = Keeps()
    model = TorchModel(net, outputs="probabilities")
    with model.prepared():
        answer = model.probabilities(torch.rand(4, 1, 2, 2))
    assert answer.data_ptr() != net.out.data_ptr()


def test_a_structure_that_changed_is_tried_anew_before_its_weights_are_cast() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4))
    precision = precision_named("bfloat16", CPU)
    working = WorkingCopy(net, precision)
    rows = torch.rand(8, 1, 6, 6)
    working.refresh(skeleton_of(net))
    working.settle(rows)
    assert next(working.eager().parameters()).dtype == torch.bfloat16
    net.append(nn.ReLU())
    working.refresh(skeleton_of(net))
    assert next(working.eager().parameters()).dtype == torch.float32
    working.settle(rows)
    assert next(working.eager().parameters()).dtype == torch.bfloat16


def test_an_interrupted_trial_of_casting_changes_nothing(monkeypatch: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    working = WorkingCopy(net, precision_named("bfloat16", CPU))
    working.refresh(skeleton_of(net))

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "equal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        working.settle(torch.rand(8, 1, 6, 6))
    assert working.manner is Manner.COPIED
    assert next(working.eager().parameters()).dtype == torch.float32


def test_a_module_that_shares_its_parts_with_its_copies_is_run_as_it_is() -> None:
    class Shares(nn.Module):
        def __init__(self, body: nn.Module) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Tensor) -> Tensor:
            answer: Tensor = self.body(x)
            return answer

        def __deepcopy__(self, _: object) -> "Shares":
            return Shares(self.body)

    net = Shares(small_net()).train()
    hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(X, n=300)
    assert all(each.dtype == torch.float32 and each.requires_grad for each in net.parameters())
    assert all(module.training for module in net.modules())


@pytest.mark.usefixtures("two_threads")
def test_two_threads_may_ask_one_classifier() -> None:
    net = Watched().train()
    smoothed = hf.SmoothedClassifier(net, 0.3)
    xs = np.stack([X, X + 0.01])
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda k: smoothed.certify(xs[k % 2], n=2_000, seed=k), range(6)))
    assert net.modes == {False}
    for k, certificate in enumerate(found):
        alone = hf.SmoothedClassifier(net, 0.3).certify(xs[k % 2], n=2_000, seed=k)
        assert certificate.evidence == alone.evidence


class Odd(str):
    """A name that is not a plain string."""


def test_a_module_that_holds_what_cannot_be_written_fast_is_compared_all_the_same() -> None:
    net = small_net()
    net.cache = OrderedDict()  # type: ignore[assignment]
    seen = skeleton_of(net)
    assert seen is not None
    assert skeleton_of(net) == seen
    net.cache = {}  # type: ignore[assignment]
    assert skeleton_of(net) != seen
    named = nn.ModuleDict({Odd("part"): nn.Flatten()})
    assert skeleton_of(named) == skeleton_of(named) is not None


TWICE = """
import torch, holdfast as hf
from networks import images, small_net
compile, called = torch.compile, []
torch.compile = lambda *given, **options: called.append(1) or compile(*given, **options)
smoothed = hf.SmoothedClassifier(small_net(), 0.3, compile=True)
for _ in range(3):
    smoothed.certify(images(1)[0], n=200)
print(len(called))
"""


@pytest.mark.slow
def test_a_network_is_compiled_once_in_a_process_that_never_compiled_before() -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", TWICE], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["1"], done.stderr


class Unlike(nn.Module):
    """Its copies answer otherwise."""

    def __init__(self, sign: float = 1.0) -> None:
        super().__init__()
        self.net = small_net()
        self.sign = sign

    def __deepcopy__(self, memo: dict[int, Any]) -> "Unlike":
        return Unlike(-self.sign)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.sign * self.net(x)
        return answer


def test_a_module_whose_copy_answers_otherwise_is_run_itself() -> None:
    found = hf.SmoothedClassifier(Unlike(), 0.3, precision="bfloat16").certify(X, n=500, seed=1)
    own = hf.SmoothedClassifier(small_net(), 0.3, precision="bfloat16").certify(X, n=500, seed=1)
    assert found.predicted == own.predicted
    assert found.score.lower(0.0) == pytest.approx(own.score.lower(0.0), abs=0.01)


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_probabilities_rounded_to_bfloat16_are_refused(outputs: str) -> None:
    torch.manual_seed(0)

    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (7 * x.flatten(1)).softmax(1).bfloat16()

    with pytest.raises(ModelError, match="rounding of bfloat16"):
        hf.SmoothedClassifier(Rounded(), 0.3, outputs=outputs).certify(X, n=500)


@pytest.mark.parametrize("fill", [-1e3, -1e9])
def test_masked_classes_hide_nothing(monkeypatch: pytest.MonkeyPatch, fill: float) -> None:
    class Masked(nn.Module):
        def __init__(self, first: nn.Module) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Flatten(), first, nn.Linear(36, 6))

        def forward(self, x: Tensor) -> Tensor:
            live = 3 * self.net(x)
            return torch.cat((live, torch.full_like(live, fill)), 1)

    with pytest.raises(ModelError, match="with the other rows of the batch"):
        hf.SmoothedClassifier(Masked(nn.BatchNorm1d(36, track_running_stats=False)), 0.3).certify(X, n=500)
    reversed_classes = torch.tensor([5, 4, 3, 2, 1, 0, *range(6, 12)])
    monkeypatch.setattr(torch, "compile", lambda forward, **_: lambda batch: forward(batch)[:, reversed_classes])
    for precision in ("float32", "bfloat16"):
        with pytest.warns(RuntimeWarning, match="runs uncompiled"):
            hf.SmoothedClassifier(Masked(nn.Identity()), 0.3, compile=True, precision=precision).certify(X, n=500)


@pytest.mark.parametrize("classes", [2, 1_000])
def test_rows_that_know_each_other_are_noticed_however_many_classes_there_are(classes: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36, track_running_stats=False), nn.Linear(36, classes))
    for precision in ("float32", "bfloat16"):
        with pytest.raises(ModelError, match="with the other rows of the batch"):
            hf.SmoothedClassifier(net, 0.3, precision=precision).certify(X, n=500)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_module_that_keeps_notes_is_asked_by_one_of_the_users_threads_at_a_time(precision: str) -> None:
    net = Notes(small_net())
    smoothed = hf.SmoothedClassifier(net, 0.3, precision=precision)
    other = hf.SmoothedClassifier(net, 0.3, precision=precision)
    asked = [(each, x, k) for k, x in enumerate(images(4)) for each in (smoothed, other)]
    alone = [each.certify(x, n=300, seed=k).evidence for each, x, k in asked]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: one[0].certify(one[1], n=300, seed=one[2]).evidence, asked))
    assert found == alone


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("frozen", [False, True])
def test_torchscript_is_certified_at_any_precision_and_left_alone(frozen: bool) -> None:
    net = small_net()
    script = torch.jit.script(net)
    script = torch.jit.freeze(script.eval()) if frozen else script.train()
    for precision in ("float32", "bfloat16"):
        found = hf.SmoothedClassifier(script, 0.3, precision=precision).certify(X, n=500, seed=1)
        meant = hf.SmoothedClassifier(net, 0.3, precision=precision).certify(X, n=500, seed=1)
        assert found.score.lower(0.1) == pytest.approx(meant.score.lower(0.1), abs=5e-3)
    if not frozen:
        assert all(each.requires_grad and each.dtype == torch.float32 for each in script.parameters())
        assert all(module.training for module in script.modules())
