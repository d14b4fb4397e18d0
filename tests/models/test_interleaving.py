"""Modules that two threads cannot ask at once, wherever they keep what they work with, and those that they can."""

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from holdfast.models.interleaving import answers_apart, answers_together
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models import TorchModel
from holdfast.zoo.architecture import Architecture
from networks import images, small_net

ROWS = torch.randn(16, 1, 6, 6, generator=torch.Generator().manual_seed(0))
X = images(1)[0]


class Parts(nn.Module):
    """Two layers, and whatever else a module may have."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Sequential(nn.Flatten(), nn.Linear(36, 8)), nn.Linear(8, 4)


class Clean(Parts):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.last(hidden)  # type: ignore[no-any-return]


class InABuffer(Parts):
    hidden: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", None)

    def forward(self, x: Tensor) -> Tensor:
        self.hidden = self.first(x)
        return self.last(self.hidden)  # type: ignore[no-any-return]


class InAnObject(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.context = SimpleNamespace(hidden=None)

    def forward(self, x: Tensor) -> Tensor:
        self.context.hidden = self.first(x)
        return self.last(self.context.hidden)  # type: ignore[no-any-return]


class InNestedPlaces(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, dict[str, Any]] = {"inner": {}}

    def forward(self, x: Tensor) -> Tensor:
        self.places["inner"]["hidden"] = self.first(x)
        return self.last(self.places["inner"]["hidden"])  # type: ignore[no-any-return]


class InAWorkspace(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.context = SimpleNamespace(space=None)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.context.space is None or self.context.space.shape != hidden.shape:
            self.context.space = torch.empty_like(hidden)
        self.context.space.copy_(hidden)
        return self.last(self.context.space)  # type: ignore[no-any-return]


class OnAStack(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.stack.append(self.first(x))
        top = self.stack[-1]
        self.stack.pop()
        return self.last(top)  # type: ignore[no-any-return]


GLOBAL: dict[str, Tensor] = {}


class InAHook(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_hook(_remember)

    def forward(self, x: Tensor) -> Tensor:
        self.first(x)
        return self.last(GLOBAL["hidden"])  # type: ignore[no-any-return]


def _remember(_: nn.Module, __: object, answer: Tensor) -> None:
    GLOBAL["hidden"] = answer


class OnItsClass(Parts):
    hidden: Tensor

    def forward(self, x: Tensor) -> Tensor:
        type(self).hidden = self.first(x)
        return self.last(type(self).hidden)  # type: ignore[no-any-return]


class OnOneLine(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.context = SimpleNamespace(places={})

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.context.places.update(hidden=self.first(x)) or self.context.places["hidden"])  # type: ignore[no-any-return]


KEEPING = (OnOneLine, InABuffer, InAnObject, InNestedPlaces, InAWorkspace, OnAStack, InAHook, OnItsClass)


@pytest.mark.parametrize("kind", KEEPING)
def test_notes_are_noticed_wherever_they_are_kept(kind: Callable[[], nn.Module]) -> None:
    net = kind()
    model = TorchModel(net)
    assert model.complaint(ROWS) == ""
    assert not model.reentrant


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("kind", KEEPING)
def test_modules_that_keep_notes_are_certified_as_those_that_do_not(kind: Callable[[], nn.Module]) -> None:
    xs = np.concatenate((images(1), 1 - images(1)))
    meant = hf.SmoothedClassifier(Clean(), 0.3).certify_many(xs, n=3_000, seed=1)
    found = hf.SmoothedClassifier(kind(), 0.3).certify_many(xs, n=3_000, seed=1)
    for each, other in zip(found, meant, strict=True):
        assert each.score.lower(0.1) == pytest.approx(other.score.lower(0.1), abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("net", [Clean, small_net, lambda: Architecture("resnet20", 1, 6, 4).build()])
def test_ordinary_networks_are_shared_by_all_threads(net: Callable[[], nn.Module], precision: str) -> None:
    model = TorchModel(net(), precision=precision)
    model.refresh()
    assert model.complaint(ROWS) == ""
    assert model.reentrant


def test_a_module_with_a_lock_of_its_own_is_waited_for_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(InAnObject):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, x: Tensor) -> Tensor:
            with self.lock:
                self.context.hidden = self.first(x)
                return self.last(self.context.hidden)  # type: ignore[no-any-return]

    monkeypatch.setattr("holdfast.models.interleaving._PATIENCE", 0.2)
    model = TorchModel(Locked())
    assert model.complaint(ROWS) == ""
    assert model.reentrant


def test_two_threads_change_places_at_every_step() -> None:
    seen = []

    def ask(batch: Tensor) -> Tensor:
        seen.append(int(batch[0]))
        seen.append(int(batch[0]))
        seen.append(int(batch[0]))
        return batch

    batches = [torch.zeros(1), torch.ones(1)]
    for together in answers_together(ask, batches):
        assert [int(each) for each in together] == [0, 1]
    assert seen[:6] == [0, 1, 0, 1, 0, 1]
    seen.clear()
    answers_apart(ask, batches)
    assert seen == [0, 0, 0, 1, 1, 1]


def test_what_a_module_raises_among_threads_ends_both() -> None:
    def ask(batch: Tensor) -> Tensor:
        if int(batch[0]):
            raise ValueError("not this one")
        return batch

    with pytest.raises(ValueError, match="not this one"):
        list(answers_together(ask, [torch.zeros(1), torch.ones(1)]))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_is_asked_by_one_thread_at_a_time() -> None:
    model = TorchModel(torch.jit.script(small_net()))
    assert model.complaint(ROWS) == ""
    assert not model.reentrant


@pytest.mark.parametrize("buffer", [True, False])
def test_a_module_that_drifts_while_it_runs_is_refused(buffer: bool) -> None:
    class Drifting(Parts):
        mean: Tensor

        def __init__(self) -> None:
            super().__init__()
            if buffer:
                self.register_buffer("mean", torch.zeros(8))
            else:
                self.mean = torch.zeros(8)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            self.mean = 0.9995 * self.mean + 0.0005 * hidden.mean(0)
            return self.last(hidden - self.mean)  # type: ignore[no-any-return]

    with pytest.raises(ModelError, match="writes to its own parameters, buffers or other tensors"):
        hf.SmoothedClassifier(Drifting(), 0.3).certify(X, n=300)


def test_a_backbone_in_two_modules_is_asked_through_one_of_them_at_a_time() -> None:
    class Slow(InAnObject):
        def forward(self, x: Tensor) -> Tensor:
            self.context.hidden = self.first(x)
            time.sleep(0.001)
            return self.last(self.context.hidden)  # type: ignore[no-any-return]

    backbone = Slow()
    one, other = (
        hf.SmoothedClassifier(backbone, 0.3),
        hf.SmoothedClassifier(nn.Sequential(nn.Identity(), backbone), 0.3),
    )
    asked = [(each, x, k) for k, x in enumerate(images(2)) for each in (one, other)]
    alone = [each.certify(x, n=300, seed=k).evidence for each, x, k in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job[0].certify(job[1], n=300, seed=job[2]).evidence, asked * 2))
    assert together == alone * 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_module_that_does_more_when_its_mode_changes_is_run_as_after_eval_and_put_back(precision: str) -> None:
    class Hot(Parts):
        hot = True

        def train(self, mode: bool = True) -> "Hot":
            super().train(mode)
            self.hot = mode
            return self

        def forward(self, x: Tensor) -> Tensor:
            return (0.1 if self.hot else 1.0) * self.last(self.first(x))  # type: ignore[no-any-return]

    net = Hot().train()
    net.first.eval()
    found = hf.SmoothedClassifier(net, 0.3, precision=precision).certify(X, n=500, seed=1)
    assert net.hot
    assert [part.training for part in (net, net.first, net.last)] == [True, False, True]
    assert (
        found.evidence == hf.SmoothedClassifier(net.eval(), 0.3, precision=precision).certify(X, n=500, seed=1).evidence
    )
    assert not net.hot


class Garbage:
    """Has work to do when it is collected, by whichever thread that happens in."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(20):
            pass


def _litter(part: nn.Module) -> None:
    forward = part.forward

    def littering(x: Tensor) -> Tensor:
        litter = [Garbage() for _ in range(3)]
        del litter
        answer: Tensor = forward(x)
        return answer

    part.forward = littering


@pytest.mark.parametrize("kind", [InABuffer, InNestedPlaces, InAWorkspace, OnOneLine])
def test_what_the_collector_does_meanwhile_brings_nobody_out_of_step(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[[], nn.Module]
) -> None:
    monkeypatch.setattr("holdfast.models.interleaving._LEADS", (0,))
    before = gc.get_threshold()
    gc.set_threshold(7, 1, 1)
    try:
        for _ in range(5):
            net = kind()
            _litter(net.first)  # type: ignore[arg-type]
            model = TorchModel(net)
            assert model.complaint(ROWS) == ""
            assert not model.reentrant
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()
