"""How a module is run: precision, compilation, memory, and that the user's module is left alone and kept up with."""

import pickle
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
from holdfast.models.compiler import options_for, quiet_compiler
from holdfast.models.folded import FoldedConv2d
from holdfast.models.precision import precision_named
from holdfast.models.skeleton import fingerprint, skeleton_of
from holdfast.models.working import Manner, WorkingCopy
from holdfast.sampling.batching import default_batch, reused_batch
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import InvalidArgument, ModelError
from holdfast.models import Model, TorchModel
from holdfast.noise import Gaussian
from holdfast.sampling import LocalEngine, Task
from networks import images, small_net

CPU = torch.device("cpu")
RADII = np.array([0.0, 0.1, 0.25])


def nothing(_: int) -> None:
    pass


def test_low_precision_is_recorded_and_near_float32() -> None:
    x = images(1)[0]
    full = hf.SmoothedClassifier(small_net(), 0.3).certify(x, n=4_000, seed=1)
    low = hf.SmoothedClassifier(small_net(), 0.3, precision="bfloat16").certify(x, n=4_000, seed=1)
    assert (full.provenance.precision, low.provenance.precision) == ("float32", "bfloat16")
    assert low.evidence != full.evidence
    assert low.score.lower(RADII) == pytest.approx(full.score.lower(RADII), abs=0.01)


def test_casting_weights_once_gives_the_numbers_of_autocast() -> None:
    net = nn.Sequential(nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)).eval()
    precision = precision_named("bfloat16", CPU)
    rows = torch.randn(8, 1, 6, 6)
    with torch.inference_mode(), precision.autocast(CPU):
        assert torch.equal(WorkingCopy(net, precision).eager()(rows), net(rows))


def test_the_users_module_keeps_its_weights_types_and_flags() -> None:
    net = small_net().train()
    before = {name: (tensor.clone(), tensor.dtype) for name, tensor in net.state_dict().items()}
    hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(images(1)[0], n=500, seed=1)
    assert all(module.training for module in net.modules())
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name][0])
        assert tensor.dtype == before[name][1]


def test_new_weights_are_certified_not_the_ones_copied_before() -> None:
    net, other, x = small_net(), small_net(seed=5), images(1)[0]
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    smoothed.certify(x, n=500, seed=1)
    net.load_state_dict(other.state_dict())
    fresh = hf.SmoothedClassifier(other, 0.3, precision="bfloat16").certify(x, n=500, seed=1)
    assert smoothed.certify(x, n=500, seed=1).evidence == fresh.evidence


class Knobs(nn.Module):
    """A network with something in it besides parameters."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.temperature = 1.0
        self.weights = [1.0, 1.0]
        self.plain = torch.ones(1)
        self._hidden = 1.0
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        factor = self._hidden * self.weights[0] * self.scale * self.plain / self.temperature
        answer: Tensor = self.net(x) * factor
        return answer


def by_fused_steps(net: Knobs) -> None:
    """An optimiser that writes to weights behind torch's version counters."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(images(4))), torch.tensor([3, 3, 3, 3])).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def by_data(net: Knobs) -> None:
    for parameter in net.parameters():
        parameter.data.mul_(-0.5)


def by_numpy(net: Knobs) -> None:
    next(iter(net.parameters())).detach().numpy()[:] = 0.3


def by_attribute(net: Knobs) -> None:
    net.temperature = 9.0


def by_hidden_attribute(net: Knobs) -> None:
    net._hidden = -1.0


def by_list(net: Knobs) -> None:
    net.weights[0] = -1.0


def by_plain_tensor(net: Knobs) -> None:
    net.plain.fill_(-1.0)


def by_buffer(net: Knobs) -> None:
    net.scale.fill_(-1.0)


def by_hook(net: Knobs) -> None:
    net.net.register_forward_hook(lambda _module, _inputs, answer: -answer)


def by_part(net: Knobs) -> None:
    assert isinstance(net.net, nn.Sequential)
    net.net[1] = nn.Tanh()


CHANGES = (
    by_fused_steps,
    by_data,
    by_numpy,
    by_attribute,
    by_hidden_attribute,
    by_list,
    by_plain_tensor,
    by_buffer,
    by_hook,
    by_part,
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_module_is_now_is_certified_not_what_was_copied_before(change: Callable[[Knobs], None]) -> None:
    x, net = images(1)[0], Knobs()
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    before = smoothed.certify(x, n=500, seed=1)
    change(net)
    fresh = hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(x, n=500, seed=1)
    assert fresh.evidence != before.evidence
    assert smoothed.certify(x, n=500, seed=1).evidence == fresh.evidence


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_has_another_fingerprint_or_none(change: Callable[[Knobs], None]) -> None:
    net = Knobs()
    before = fingerprint(net)
    assert before is not None
    assert before == fingerprint(Knobs())
    change(net)
    assert fingerprint(net) != before


def test_weights_that_are_no_longer_shared_are_noticed() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), first, nn.Tanh(), second, nn.Linear(4, 3))
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    x = torch.rand(1, 8, 8)
    before = smoothed.certify(x, n=500, seed=1)
    second.weight = nn.Parameter(-first.weight.detach())
    after = smoothed.certify(x, n=500, seed=1)
    assert after.evidence != before.evidence
    assert after.evidence == hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(x, n=500, seed=1).evidence


class Apart(nn.Module):
    """A module with parts that torch does not know of."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        self.heads = [nn.Linear(3, 3)]
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        return 3 * self.step(self.heads[0](self.first(x)))


def _step(x: Tensor) -> Tensor:
    return x


def _other_step(x: Tensor) -> Tensor:
    return -x


_other_step.__name__ = _other_step.__qualname__ = "_step"


def _write_to_a_hidden_part(net: Apart) -> None:
    net.heads[0].weight.data.neg_()


def _define_a_function_again(net: Apart) -> None:
    vars(sys.modules[__name__])["_step"] = _other_step
    net.step = _other_step


def _define_a_class_again(net: Apart) -> None:
    def forward(self: Apart, x: Tensor) -> Tensor:
        return -Apart.forward(self, x)

    again = type("Apart", (Apart,), {"forward": forward, "__module__": Apart.__module__, "__qualname__": "Apart"})
    net.__class__ = again


def _bind_another_lambda(net: Apart) -> None:
    net.forward = MethodType(lambda self, x: -Apart.forward(self, x), net)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "change", [_write_to_a_hidden_part, _define_a_function_again, _define_a_class_again, _bind_another_lambda]
)
def test_what_torch_does_not_see_is_certified_as_it_is_now(
    change: Callable[[Apart], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_step", _step)
    net, x = Apart(_step), torch.rand(1, 8, 8)
    if change is _bind_another_lambda:
        net.forward = MethodType(lambda self, x: Apart.forward(self, x), net)  # type: ignore[method-assign]
    smoothed = hf.SmoothedClassifier(net, 0.3, precision="bfloat16")
    before = smoothed.certify(x, n=500, seed=1).evidence
    change(net)
    after = smoothed.certify(x, n=500, seed=1).evidence
    assert after != before
    assert after == hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(x, n=500, seed=1).evidence


def test_two_threads_certify_one_module_in_evaluation_mode() -> None:
    seen: list[bool] = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            seen.append(self.training)
            answer: Tensor = self.net(x)
            return answer

    net = Watched().train()
    smoothed = [hf.SmoothedClassifier(net, 0.3, batch=16) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for done in [
            pool.submit(each.certify, images(1)[0], n=300 * (k + 1), seed=1) for k, each in enumerate(smoothed)
        ]:
            done.result()
    assert set(seen) == {False}
    assert net.training


def test_a_head_that_reads_its_weights_itself_is_not_cast() -> None:
    class Cosine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(36, 4)

        def forward(self, x: Tensor) -> Tensor:
            directions = nn.functional.normalize(self.head.weight.float(), dim=1)
            with torch.autocast("cpu", enabled=False):
                answer: Tensor = nn.functional.normalize(x.flatten(1), dim=1) @ directions.T + self.head(x.flatten(1))
            return answer

    net, rows = Cosine(), torch.randn(16, 1, 6, 6)
    model = TorchModel(net, precision="bfloat16")
    assert model.complaint(rows) == ""
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        expected = net(rows).softmax(1)
    assert torch.equal(model.probabilities(rows), expected)


def test_rows_that_only_fill_a_batch_cannot_spoil_it() -> None:
    class Unit(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            answer: Tensor = (flat / flat.norm(dim=1, keepdim=True))[:, :4]
            return answer

    cert = hf.SmoothedClassifier(Unit(), 0.3, batch=64).certify(images(1)[0], n=100, n0=50, seed=1)
    assert cert.n == 100


def test_a_model_goes_to_other_processes_without_what_was_compiled_here() -> None:
    model = TorchModel(small_net(), precision="bfloat16")
    rows = torch.from_numpy(images(8))
    model.complaint(rows)
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again.probabilities(rows), model.probabilities(rows))
    assert again.precision == "bfloat16"


def test_float32_means_it_and_the_users_settings_come_back() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with precision_named("float32", CPU).rules():
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"  # type: ignore[attr-defined]
            assert torch.backends.cudnn.rnn.fp32_precision == "ieee"  # type: ignore[attr-defined]
            assert torch.backends.cudnn.allow_tf32 is False
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.allow_tf32 is True
    finally:
        torch.set_float32_matmul_precision("highest")


def test_unknown_precisions_and_tf32_on_a_cpu_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="float32, tf32, bfloat16, float16"):
        hf.SmoothedClassifier(small_net(), 0.3, precision="int8")
    with pytest.raises(InvalidArgument, match="CUDA GPUs only"):
        hf.SmoothedClassifier(small_net(), 0.3, precision="tf32", device="cpu")


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs a C++ compiler")
def test_a_compiled_network_is_certified_alike_and_says_so() -> None:
    x = images(1)[0]
    plain = hf.SmoothedClassifier(small_net(), 0.3).certify(x, n=2_000, seed=1)
    compiled = hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(x, n=2_000, seed=1)
    assert (plain.provenance.compiled, compiled.provenance.compiled) == (False, True)
    assert compiled.score.lower(RADII) == pytest.approx(plain.score.lower(RADII), abs=1e-3)


@pytest.mark.slow
def test_a_network_that_is_compiled_anew_at_every_call_runs_as_it_is() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            answer: Tensor = self.net(x)
            return answer

    with pytest.warns(RuntimeWarning, match="runs uncompiled.*compiled anew"):
        cert = hf.SmoothedClassifier(Counting(), 0.3, compile=True).certify(images(1)[0], n=200)
    assert not cert.provenance.compiled


DESCRIPTIONS = {
    "": (True, True),  # the library's
    "BLOCK_M=128, BLOCK_N=64, SPARSE_Q_BLOCK_SIZE=128, num_stages=3, num_warps=8": (True, True),  # attention
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, GROUPS=1, KERNEL_H=4, UNROLL=False, num_stages=2, num_warps=4": (True, True),
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, GROUPS=1, KERNEL_H=4, UNROLL=False, num_stages=2, num_warps=8": (
        False,
        False,
    ),
    "BLOCK_K=64, BLOCK_M=128, BLOCK_N=64, GROUPS=1, KERNEL_H=3, UNROLL=False, num_stages=3, num_warps=16": (
        False,
        False,
    ),
    "BLOCK_K=64, BLOCK_M=128, BLOCK_N=64, GROUPS=1, KERNEL_H=1, UNROLL=True, num_stages=3, num_warps=8": (True, False),
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, EVEN_K=True, GROUP_M=8, num_stages=2, num_warps=4": (True, False),
}


def test_kernels_that_are_known_to_be_wrong_are_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    low, full = (precision_named(name, torch.device("cpu")) for name in ("bfloat16", "float32"))
    folded = nn.Conv2d(3, 64, 7, 2, 3)
    folded.__class__ = FoldedConv2d
    known = "test_configs.autotune_choice_desc_regex"
    assert options_for(folded, low) == {}  # not on a GPU
    for selective in (True, False):
        monkeypatch.setattr("torch._inductor.list_options", lambda selective=selective: [known] if selective else [])
        options = {}
        for width in (64, 2_048):
            monkeypatch.setattr("holdfast.models.compiler._widest", lambda _, width=width: width)
            for precision in (low, full):
                options[width, precision.name] = options_for(folded, precision)
                options[width, "unfolded"] = options_for(nn.Conv2d(3, 64, 1), low)
        # Whatever the user's own settings are: a kernel that is wrong is left out, or Triton is.
        for chosen in options.values():
            assert known in chosen or chosen["max_autotune_conv_backends"] == "ATEN"
        assert options[2_048, "unfolded"]["conv_1x1_as_mm"]
        assert "conv_1x1_as_mm" not in options[2_048, "float32"]
        if selective:
            narrow, wide = options[64, "bfloat16"], options[2_048, "bfloat16"]
            for description, tried in DESCRIPTIONS.items():
                assert tuple(bool(re.search(chosen[known], description)) for chosen in (narrow, wide)) == tried
            with quiet_compiler():
                torch.compile(folded, options=narrow), torch.compile(folded, options=wide)  # there are such options


def test_a_network_that_cannot_be_compiled_runs_as_it_is_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        def fail(_: Tensor) -> Tensor:
            raise RuntimeError("no compiler here")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    x = images(1)[0]
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, compile=True)
    with pytest.warns(RuntimeWarning, match="runs uncompiled.*no compiler here"):
        cert = smoothed.certify(x, n=500, seed=1)
    assert not cert.provenance.compiled
    assert cert.evidence == hf.SmoothedClassifier(small_net(), 0.3).certify(x, n=500, seed=1).evidence
    assert smoothed.certify(x, n=500, seed=1).evidence == cert.evidence  # and says so once


def test_work_per_input_alone_decides_whether_to_compile() -> None:
    model = TorchModel(small_net())
    operations = model.operations(torch.zeros(4, 1, 6, 6))
    assert operations == 2 * (5 * 9 * 36 + 180 * 4)
    model.expect(1e12)
    assert not model.compiled
    model.expect(1e14)
    assert model.compiled


class Small(Model):
    """A model with memory for a few rows only."""

    def __init__(self, room: int) -> None:
        self.inner = TorchModel(small_net())
        self.room = room

    name = "small"
    device = CPU
    precision = "float32"
    compiled = False
    fingerprint = "small"

    def moved(self, device: torch.device) -> Model:
        assert device == CPU
        return self

    def replicas(self) -> list[Model]:
        return []

    def prepared(self) -> AbstractContextManager[None]:
        return nullcontext()

    def warm(self, size: torch.Size, draw: Callable[[], Tensor]) -> None:
        pass

    def probabilities(self, batch: Tensor) -> Tensor:
        if len(batch) > self.room:
            raise torch.OutOfMemoryError("out of memory")
        return self.inner.probabilities(batch)

    def complaint(self, batch: Tensor) -> str:
        return "" if len(batch) else "no rows"


def test_out_of_memory_halves_the_batch_and_counts_nothing_twice() -> None:
    done: list[int] = []
    engine = LocalEngine(Small(40), Gaussian(0.3), seed=4, batch=256)
    task = Task(0, torch.from_numpy(images(1)[0]), 0, 3_000, 1)
    found = engine.estimate([task], on_copies=done.append)[0]
    assert engine.batch == 32
    assert sum(done) == 3_000
    assert found == LocalEngine(TorchModel(small_net()), Gaussian(0.3), 4, 32).estimate([task], on_copies=nothing)[0]


def test_a_model_that_does_not_fit_at_all_is_refused() -> None:
    engine = LocalEngine(Small(3), Gaussian(0.3), seed=4, batch=64)
    with pytest.raises(ModelError, match="even with 8 copies at a time"):
        engine.estimate([Task(0, torch.from_numpy(images(1)[0]), 0, 100, 1)], on_copies=nothing)


def test_replicas_share_the_copies_and_change_nothing() -> None:
    xs = [torch.from_numpy(image) for image in images(2)]
    tasks = [Task(0, xs[0], 0, 2_500, 1), Task(1, xs[1], 0, 1_200, 2)]
    model = TorchModel(small_net())
    alone = LocalEngine(model, Gaussian(0.3), 4, 64).estimate(tasks, on_copies=nothing)
    shared = LocalEngine(model, Gaussian(0.3), 4, 64, [TorchModel(small_net())]).estimate(tasks, on_copies=nothing)
    assert shared == alone


def test_a_batch_size_that_was_compiled_for_is_kept_where_it_fits() -> None:
    assert reused_batch(2_000, None) == 2_000
    for compiled, kept in ((2_448, True), (1_000, True), (4_000, True), (999, False), (4_001, False), (64, False)):
        assert reused_batch(2_000, compiled) == (compiled if kept else 2_000)


def test_a_batch_to_compile_for_is_drawn_once() -> None:
    model = TorchModel(small_net(), compiled=True)
    drawn = []

    def draw() -> Tensor:
        drawn.append(1)
        return torch.rand(8, 1, 6, 6)

    with model.prepared():
        for _ in range(2):
            model.warm(torch.Size((8, 1, 6, 6)), draw)
    assert len(drawn) == 1


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs a C++ compiler")
def test_a_network_is_not_compiled_again_for_another_n() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, compile=True)
    x = images(1)[0]
    smoothed.certify(x, n=300, seed=1, batch=48)
    size = smoothed._model.compiled_batch(torch.Size(x.shape))
    assert size == 48
    smoothed.certify(x, n=500, seed=1)
    assert len(smoothed._model._warm) == 1
    assert smoothed._model.compiled_batch(torch.Size((3, 9, 9))) is None
    assert hf.SmoothedClassifier(small_net(), 0.3)._model.compiled_batch(torch.Size(x.shape)) is None


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7, (3, 6)])
@pytest.mark.parametrize("padding", [0, 1, 3, (1, 2)])
@pytest.mark.parametrize("size", [(16, 16), (17, 24), (9, 31)])
def test_a_folded_convolution_gives_the_same_sums(kernel: Any, padding: Any, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    for channels in (1, 3, 4):
        usual = nn.Conv2d(channels, 6, kernel, 2, padding).double()
        rows = torch.randn(2, channels, *size, dtype=torch.float64)
        expected = usual(rows)
        assert FoldedConv2d.suits(usual)
        usual.__class__ = FoldedConv2d
        assert torch.allclose(usual(rows), expected, rtol=0, atol=1e-12)


def test_only_convolutions_that_can_be_folded_are() -> None:
    assert not FoldedConv2d.suits(nn.Linear(3, 3))
    assert not FoldedConv2d.suits(nn.Conv2d(8, 8, 3, 2))
    for other in ({}, {"stride": (2, 1)}, {"stride": 2, "dilation": 2}, {"stride": 2, "groups": 3}):
        assert not FoldedConv2d.suits(nn.Conv2d(3, 6, 3, **other))
    assert not FoldedConv2d.suits(nn.Conv2d(3, 6, 3, 2, padding_mode="reflect"))
    assert not FoldedConv2d.suits(nn.Conv2d(3, 6, 3, padding="same"))


def test_a_convolution_that_computes_otherwise_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FoldedConv2d.suits(nn.Conv2d(3, 6, 3, 2))
    for name in ("forward", "_conv_forward"):
        own = nn.Conv2d(3, 6, 3, 2)
        setattr(own, name, lambda *_: torch.zeros(1))
        assert not FoldedConv2d.suits(own)
        with monkeypatch.context() as changed:
            changed.setattr(nn.Conv2d, name, lambda *_: torch.zeros(1))
            assert not FoldedConv2d.suits(nn.Conv2d(3, 6, 3, 2))


def test_a_working_copy_with_a_folded_first_layer_answers_alike_and_follows_the_weights(monkeypatch: Any) -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(3, 16, 7, 2, 3)
    net = nn.Sequential(first, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
    monkeypatch.setattr("holdfast.models.compiler._widest", lambda _: 2_048)
    device = torch.device("cpu")
    low = precision_named("bfloat16", device)
    rows = torch.rand(4, 3, 20, 20)
    working = WorkingCopy(net, low, Manner.CAST)
    for _ in range(2):
        working.refresh(skeleton_of(net))
        assert isinstance(working.eager()[0], FoldedConv2d)  # type: ignore[index]
        with torch.inference_mode(), low.autocast(device):
            assert torch.allclose(working.eager()(rows), net(rows), atol=0.02)
        nn.init.normal_(first.weight, std=0.1)
    assert type(first) is nn.Conv2d
    assert not isinstance(WorkingCopy(net, precision_named("float32", device)).eager()[0], FoldedConv2d)  # type: ignore[index]


@pytest.mark.parametrize(
    ("device", "shape", "operations", "most"),
    [
        ("cuda", (3, 32, 32), 5.1e8, 2_500),  # ResNet-110
        ("cuda", (3, 224, 224), 8.2e9, 500),  # ResNet-50
        ("cuda", (1, 28, 28), 1.2e6, 10_000),
        ("cuda", (3, 4_096, 4_096), 1e13, 10),
        ("cpu", (3, 32, 32), 5.1e8, 64),
        ("cpu", (3, 224, 224), 8.2e9, 8),
    ],
)
def test_batches_keep_a_device_busy_and_the_last_one_is_nearly_full(
    device: str, shape: tuple[int, ...], operations: float, most: int
) -> None:
    copies = 100_100
    size = default_batch(torch.device(device), torch.Size(shape), operations, copies)
    assert 0.9 * most <= size <= most + 8
    assert default_batch(torch.device(device), torch.Size(shape), operations, 1) == most
    if device == "cuda" and most >= 200:
        assert -(-copies // size) * size <= 1.02 * copies
