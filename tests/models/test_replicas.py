"""Replicas: every worker runs the module as it would run alone, whatever it keeps meanwhile, and leaves it as it is."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models import TorchModel
from networks import CHANGES_IN_PLACE, CHANGES_OF_STRUCTURE, Knobs, images, small_net
from stateful import KINDS, RUN_ITSELF, Clean, Keeping

X = images(1)[0]
XS = np.concatenate((images(1), 1 - images(1)))
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "bfloat16"])


def certified(net: nn.Module, precision: str = "float32") -> list[float]:
    smoothed = hf.SmoothedClassifier(net, 0.3, precision=precision)
    return [float(cert.score.lower(0.1)) for cert in smoothed.certify_many(XS, n=1_500, seed=1)]


@cache
def meant(precision: str) -> list[float]:
    return certified(Clean(), precision)


@pytest.mark.usefixtures("two_threads")
@PRECISIONS
@pytest.mark.parametrize("kind", KINDS)
def test_modules_that_keep_something_are_certified_as_those_that_do_not(kind: str, precision: str) -> None:
    assert certified(KINDS[kind](), precision) == pytest.approx(meant(precision), abs=1e-4)
    model = TorchModel(KINDS[kind](), precision=precision)
    known = model.fingerprint()
    assert hf.SmoothedClassifier(model, 0.3).certify(X, n=300).n == 300
    assert (model.replicate(torch.device("cpu")) is None) is (kind in RUN_ITSELF)
    assert model.fingerprint() == known or kind in RUN_ITSELF


@pytest.mark.usefixtures("two_threads")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("frozen", [False, True])
def test_torchscript_is_certified_at_any_precision_and_left_alone(frozen: bool) -> None:
    net = small_net()
    script = torch.jit.script(net)
    script = torch.jit.freeze(script.eval()) if frozen else script.train()
    for precision in ("float32", "bfloat16"):
        assert certified(script, precision) == pytest.approx(certified(net, precision), abs=5e-3)
    if not frozen:
        assert all(each.requires_grad and each.dtype == torch.float32 for each in script.parameters())
        assert all(module.training for module in script.modules())


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("kind", ["an object", "a lambda"])
def test_a_backbone_in_two_modules_may_be_asked_by_four_threads(kind: str) -> None:
    backbone = KINDS[kind]()
    classifiers = [hf.SmoothedClassifier(net, 0.3) for net in (backbone, nn.Sequential(nn.Identity(), backbone))]
    asked = [(each, x, k) for k, x in enumerate(XS) for each in classifiers]
    alone = [each.certify(x, n=300, seed=k).evidence for each, x, k in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job[0].certify(job[1], n=300, seed=job[2]).evidence, asked * 2))
    assert together == alone * 2


@pytest.mark.usefixtures("two_threads")
@PRECISIONS
def test_two_of_the_users_threads_may_ask_one_classifier(precision: str) -> None:
    smoothed = hf.SmoothedClassifier(Keeping("itself"), 0.3, precision=precision)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda k: smoothed.certify(XS[k % 2], n=500, seed=k).evidence, range(6)))
    assert together == [smoothed.certify(XS[k % 2], n=500, seed=k).evidence for k in range(6)]


@pytest.mark.usefixtures("two_threads")
def test_a_module_in_training_mode_is_run_in_evaluation_mode_by_all_threads() -> None:
    net = nn.Sequential(nn.BatchNorm2d(1), small_net(), nn.Dropout(0.5)).train()
    smoothed = [hf.SmoothedClassifier(net, 0.3, batch=16) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: each.certify(X, n=500, seed=1).evidence, smoothed))
    assert all(module.training for module in net.modules())
    assert found == [hf.SmoothedClassifier(net.eval(), 0.3, batch=16).certify(X, n=500, seed=1).evidence] * 2


class Hot(Clean):
    """Does more than set flags when its mode changes."""

    hot = True

    def train(self, mode: bool = True) -> "Hot":
        super().train(mode)
        self.hot = mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (0.1 if self.hot else 1.0) * super().forward(x)


@PRECISIONS
@pytest.mark.parametrize("replicated", [True, False])
def test_a_module_that_does_more_when_its_mode_changes_is_run_as_after_eval_and_put_back(
    replicated: bool, precision: str
) -> None:
    net = Hot().train()
    net.first.eval()
    if not replicated:
        net.register_forward_hook(lambda *_: None)
    assert certified(net, precision) == pytest.approx(meant(precision), abs=1e-4)
    assert net.hot
    assert [part.training for part in (net, net.first, net.last)] == [True, False, True]
    assert certified(net.eval(), precision) == pytest.approx(meant(precision), abs=1e-4)
    assert not net.hot


@pytest.mark.usefixtures("two_threads")
@PRECISIONS
@pytest.mark.parametrize("kind", ["nothing", "a function as a hook", "another copy"])
def test_the_users_module_keeps_weights_types_flags_hooks_and_attributes(kind: str, precision: str) -> None:
    net = KINDS[kind]().train()
    next(net.children()).eval()
    next(net.parameters()).requires_grad_(False)

    def state() -> list[Any]:
        kept = [(name, each.data_ptr(), each.dtype, each.requires_grad) for name, each in net.named_parameters()]
        own = [(type(each), each.training, len(each._forward_hooks), sorted(vars(each))) for each in net.modules()]
        return [kept, own, {name: each.tolist() for name, each in net.state_dict().items()}]

    before = state()
    certified(net, precision)
    assert state() == before


@PRECISIONS
@pytest.mark.parametrize("change", CHANGES_IN_PLACE)
def test_weights_that_were_changed_in_place_are_certified_at_the_next_call(change: str, precision: str) -> None:
    net = Knobs()
    smoothed = hf.SmoothedClassifier(net, 0.3, precision=precision)
    before = smoothed.certify(X, n=500, seed=1)
    CHANGES_IN_PLACE[change](net)
    fresh = hf.SmoothedClassifier(net, 0.3, precision=precision).certify(X, n=500, seed=1)
    assert fresh.evidence != before.evidence
    for _ in range(2):
        assert smoothed.certify(X, n=500, seed=1).evidence == fresh.evidence


@PRECISIONS
@pytest.mark.parametrize("change", CHANGES_OF_STRUCTURE)
def test_the_structure_is_fixed_when_the_classifier_is_made_and_later_changes_are_not_seen(
    change: str, precision: str
) -> None:
    net = Knobs()
    smoothed, unasked = (hf.SmoothedClassifier(net, 0.3, precision=precision) for _ in range(2))
    before, known = smoothed.certify(X, n=500, seed=1), smoothed.fingerprint
    CHANGES_OF_STRUCTURE[change](net)
    for each, batch in ((smoothed, None), (smoothed, 32), (unasked, None)):
        assert each.certify(X, n=500, seed=1, batch=batch).evidence == before.evidence
        assert each.fingerprint == known
        net.scale.fill_(1.0)  # what is written to is compared again
    fresh = hf.SmoothedClassifier(net, 0.3, precision=precision)
    assert fresh.certify(X, n=500, seed=1).evidence != before.evidence
    assert fresh.fingerprint != known


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("change", "words"), [("a buffer", "written to while it was sampled"), (".data", "from call to call")]
)
@pytest.mark.parametrize("asked_before", [False, True])
def test_weights_written_during_sampling_are_an_error(
    monkeypatch: pytest.MonkeyPatch, change: str, words: str, asked_before: bool
) -> None:
    net, calls, forward = Knobs(), itertools.count(), Knobs.forward
    smoothed = hf.SmoothedClassifier(net, 0.3)
    if asked_before:
        smoothed.certify(X, n=300)

    def meddling(self: Knobs, x: Tensor) -> Tensor:
        if next(calls) == 30:
            CHANGES_IN_PLACE[change](net)
        return forward(self, x)

    monkeypatch.setattr(Knobs, "forward", meddling)
    with pytest.raises(ModelError, match=words):
        smoothed.certify(X, n=5_000, seed=1)
    assert smoothed.certify(X, n=300).n == 300


def test_a_model_that_was_sent_to_another_process_answers_alike() -> None:
    rows = torch.from_numpy(images(8))
    for net in (small_net(), Keeping("an object"), KINDS["a function as a hook"]()):
        model = TorchModel(net, precision="bfloat16")
        again = model.builder()(torch.device("cpu"))
        with model.session(), again.session():
            assert torch.equal(again.probabilities(rows), model.probabilities(rows))
        assert (again.precision, again.fingerprint()) == ("bfloat16", model.fingerprint())


def test_probabilities_are_nobody_elses_memory() -> None:
    answers: list[Tensor] = []
    net = nn.Sequential(nn.Flatten(), nn.Softmax(1))
    net.register_forward_hook(lambda *given: answers.append(given[-1]))
    model = TorchModel(net, outputs="probabilities")
    with model.session():
        assert model.probabilities(torch.rand(4, 1, 2, 2)).data_ptr() != answers[0].data_ptr()
