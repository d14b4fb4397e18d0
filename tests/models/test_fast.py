"""Arithmetic in its own corner: precision, compilation, folded convolutions, and the count of operations."""

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import InvalidArgument, ModelError
from holdfast.models import TorchModel
from holdfast.models.fast.compile import compiling, options_for, quiet_compiler
from holdfast.models.fast.folded import FoldedConv2d
from holdfast.models.fast.precision import precision_named
from holdfast.models.spot_check import other_answers, spot_check_of
from holdfast.sampling import CertifyRequest
from networks import CHANGES_IN_PLACE, Knobs, images, small_net

CPU = torch.device("cpu")
X = images(1)[0]
RADII = np.array([0.0, 0.1, 0.25])
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs a C++ compiler")


def test_low_precision_is_recorded_and_near_float32() -> None:
    full = hf.SmoothedClassifier(small_net(), 0.3).certify(X, n=4_000, seed=1)
    low = hf.SmoothedClassifier(small_net(), 0.3, precision="bfloat16").certify(X, n=4_000, seed=1)
    assert (full.provenance.precision, low.provenance.precision) == ("float32", "bfloat16")
    assert low.evidence != full.evidence
    assert low.score.lower(RADII) == pytest.approx(full.score.lower(RADII), abs=0.01)


class ReadsItsWeights(nn.Module):
    """Where they were cast, it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return self.head(x.flatten(1)) + nn.functional.normalize(x.flatten(1)) @ self.head.weight.T  # type: ignore[no-any-return]


class Attending(nn.Module):
    """A transformer of torch's own layers."""

    def __init__(self, *, more: bool) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, 16, 2, 2)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.last = nn.MultiheadAttention(16, 2, batch_first=True, bias=more, add_bias_kv=more)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.layers(self.embed(x).flatten(2).transpose(1, 2))
        return self.head(self.last(tokens, tokens, tokens)[0].mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("more", [True, False])
def test_a_transformers_weights_are_cast_once_and_give_the_numbers_of_autocast(more: bool) -> None:
    torch.manual_seed(0)
    model, rows = TorchModel(Attending(more=more), precision="bfloat16"), images(8)
    replica = model.replicate(CPU)
    assert replica is not None
    assert isinstance(replica.forward, nn.Module)
    kinds = {name.split(".")[-2]: weight.dtype for name, weight in replica.forward.named_parameters()}
    assert {name for name, kind in kinds.items() if kind is torch.float32} == {"norm1", "norm2"}
    with model.session():
        expected = model.probabilities(torch.from_numpy(rows))
        assert torch.equal(replica.probabilities(torch.from_numpy(rows)), expected)


@pytest.mark.parametrize("bias", [0.0, 300.0])
@pytest.mark.parametrize("usual", [True, False])
def test_casting_weights_once_gives_the_numbers_of_autocast(usual: bool, bias: float) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm2d(1), small_net()) if usual else ReadsItsWeights()
    nn.init.constant_(list(net.parameters())[-1], bias)  # far from zero, scores are off by much

    def evidence() -> object:
        return hf.SmoothedClassifier(net, 0.3, precision="bfloat16").certify(X, n=500, seed=1).evidence

    found = evidence()
    net.register_forward_hook(lambda *_: None)  # now it is run itself
    assert found == evidence()


def test_float32_means_it_and_the_users_settings_come_back() -> None:
    backends: Any = torch.backends
    torch.set_float32_matmul_precision("medium")
    try:
        with precision_named("float32", CPU).rules():
            assert backends.mkldnn.matmul.fp32_precision == backends.cudnn.rnn.fp32_precision == "ieee"
            assert backends.cudnn.allow_tf32 is False
        assert torch.get_float32_matmul_precision() == "medium"
        assert backends.cudnn.allow_tf32 is True
    finally:
        torch.set_float32_matmul_precision("highest")


GPU = torch.device("cuda")


@pytest.mark.parametrize("convolutions", [True, False])
@pytest.mark.parametrize("products", ["highest", "high", "medium"])
def test_by_default_a_gpu_computes_as_torchs_settings_say_and_later_changes_play_no_role(
    monkeypatch: pytest.MonkeyPatch, convolutions: bool, products: str
) -> None:
    backends: Any = torch.backends
    monkeypatch.setattr(backends.cudnn, "allow_tf32", convolutions)
    torch.set_float32_matmul_precision(products)
    try:
        chosen = precision_named(None, GPU)
        assert precision_named(None, CPU) == precision_named("float32", CPU)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert (chosen.low, chosen.convolutions, chosen.products) == (None, convolutions, products != "highest")
    assert chosen == precision_named(chosen.name, GPU)
    with precision_named("float32", CPU).rules(), chosen.rules():
        assert backends.cudnn.allow_tf32 is convolutions
        assert (backends.cudnn.conv.fp32_precision == "tf32") is convolutions
        assert (backends.cuda.matmul.fp32_precision == "tf32") is (products != "highest")
    assert precision_named(None, GPU).name == ("tf32-convolutions" if convolutions else "float32")


def test_what_the_default_was_is_recorded_and_is_a_precision_by_name() -> None:
    cert = hf.SmoothedClassifier(small_net(), 0.3).certify(X, n=300)
    assert cert.provenance.precision == "float32"
    assert not TorchModel(small_net()).rounded
    assert TorchModel(small_net(), precision="tf32-convolutions").rounded  # a GPU's run is compared on a CPU


def test_a_run_of_a_gpu_is_compared_on_a_cpu_with_room_for_its_rounding() -> None:
    rows = torch.rand(3, 1, 6, 6)
    here = TorchModel(small_net(), precision="tf32-convolutions")
    known = spot_check_of(here, rows)
    assert known.precision == "tf32-convolutions"
    off = replace(known, probabilities=known.probabilities * np.array([1.01, 0.99, 1.0, 1.0], np.float32))
    assert other_answers(here, off) == ""
    assert "off by" in other_answers(TorchModel(small_net()), replace(off, precision="float32"))


def test_unknown_precisions_and_tf32_on_a_cpu_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"float32, tf32, .*bfloat16, float16"):
        hf.SmoothedClassifier(small_net(), 0.3, precision="int8")
    for name in ("tf32", "tf32-convolutions", "tf32-products"):
        with pytest.raises(InvalidArgument, match="CUDA GPUs only"):
            hf.SmoothedClassifier(small_net(), 0.3, precision=name, device="cpu")
        as_if = hf.SmoothedClassifier(TorchModel(small_net(), precision=name), 0.3)  # to verify a GPU's run
        with pytest.raises(InvalidArgument, match="CUDA GPUs only"):
            as_if.certify(X, n=300)


@NEEDS_COMPILER
def test_a_compiled_network_is_certified_alike_says_so_and_follows_the_weights() -> None:
    net = Knobs()
    smoothed = hf.SmoothedClassifier(net, 0.3, compile=True)
    for change in (None, "load_state_dict", ".data"):
        if change:
            CHANGES_IN_PLACE[change](net)
        plain = hf.SmoothedClassifier(net, 0.3).certify(X, n=1_000, seed=1)
        compiled = smoothed.certify(X, n=1_000, seed=1)
        assert (plain.provenance.compiled, compiled.provenance.compiled) == (False, True)
        assert compiled.score.lower(RADII) == pytest.approx(plain.score.lower(RADII), abs=1e-3)


class Counting(nn.Module):
    """Compiled anew at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.calls = small_net(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x)  # type: ignore[no-any-return]


@NEEDS_COMPILER
@pytest.mark.slow
def test_a_network_that_is_compiled_anew_at_every_call_runs_as_it_is() -> None:
    with pytest.warns(RuntimeWarning, match=r"runs uncompiled.*recompile"):
        assert not hf.SmoothedClassifier(Counting(), 0.3, compile=True).certify(X, n=200).provenance.compiled


Fault = Callable[[Tensor, int], Tensor]


def stand_in(monkeypatch: pytest.MonkeyPatch, fault: Fault, *, real: bool = False) -> list[list[int]]:
    """For torch.compile: what its graphs say of a batch, at which call, goes through ``fault``. Their calls, by graph."""
    compile = torch.compile
    graphs: list[list[int]] = []

    def compiled(forward: Callable[[Tensor], Tensor], **options: Any) -> Callable[[Tensor], Tensor]:
        inner = compile(forward, **options) if real else forward
        graphs.append(calls := [])

        def run(batch: Tensor) -> Tensor:
            calls.append(len(batch))
            return fault(inner(batch), len(calls))

        return run

    monkeypatch.setattr(torch, "compile", compiled)
    return graphs


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=NEEDS_COMPILER)])
def test_two_compiled_passes_before_the_first_batch_and_one_compilation_whatever_n(
    monkeypatch: pytest.MonkeyPatch, real: bool
) -> None:
    graphs = stand_in(monkeypatch, lambda scores, _: scores, real=real)
    net = small_net()
    smoothed = hf.SmoothedClassifier(net, 0.3, compile=True, batch=48)
    smoothed.certify(X, n=372, n0=12)
    assert graphs == [[48] * (2 + 9)]  # 384 copies, 47 at a time
    for n in (300, 900):
        assert smoothed.certify(X, n=n).provenance.compiled
    assert [set(calls) for calls in graphs] == [{48}]
    asked = len(graphs[0])
    net.load_state_dict(small_net(seed=5).state_dict())
    smoothed.certify(X, n=372, n0=12)
    assert graphs[0][asked:] == [48] * (2 + 9)  # compared again


FAULTS: dict[str, tuple[Fault, str]] = {
    "failing": (lambda scores, _: scores @ scores, "cannot be multiplied"),
    "other classes": (lambda scores, _: scores.flip(1), "off by"),
    "less sure": (lambda scores, _: 0.6 * scores, "off by"),
    "one row": (lambda scores, _: torch.cat((scores[:-1], scores[-1:].flip(1))), "off by"),
    "a constant": (lambda scores, _: scores.mean(0, keepdim=True).expand_as(scores), "off by"),
    "from the second call": (lambda scores, calls: scores if calls == 1 else scores.flip(1), "off by"),
}


@pytest.mark.parametrize(("classes", "precision"), [(2, "float32"), (10, "bfloat16"), (1_000, "float32")])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_or_answers_otherwise_when_compiled_runs_as_it_is_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, fault: str, classes: int, precision: str
) -> None:
    torch.manual_seed(0)
    # Dead where inputs are small, sure of itself where they are not.
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, classes), nn.Dropout()).train()
    net.load_state_dict({name: each - 20 * (name == "1.bias") for name, each in net.state_dict().items()})
    x = 100 * torch.rand(3, 2, 2)
    options: dict[str, Any] = {"precision": precision, "inputs": "any"}
    plain = hf.SmoothedClassifier(net, 30.0, **options).certify(x, n=300, seed=1)
    wrong, words = FAULTS[fault]
    stand_in(monkeypatch, wrong)
    smoothed = hf.SmoothedClassifier(net, 30.0, compile=True, **options)
    with pytest.warns(RuntimeWarning, match=rf"runs uncompiled.*{words}"):
        found = smoothed.certify(x, n=300, seed=1)
    for cert in (found, smoothed.certify(x, n=300, seed=1)):
        assert (cert.evidence, cert.provenance.compiled) == (plain.evidence, False)


def test_pages_of_the_compiler_are_cut_to_what_a_warning_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Tensor:
        raise RuntimeError("Data-dependent branching\n" + "  Explanation: it branches on data\n" * 50)

    stand_in(monkeypatch, failing)
    with pytest.warns(
        RuntimeWarning, match=r"runs uncompiled.*: Data-dependent branching Explanation: .* \.\.\.$"
    ) as found:
        hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(X, n=200)
    assert len(str(found[0].message)) < 350


@pytest.mark.usefixtures("two_threads")
def test_workers_run_the_very_graph_that_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compile, graphs = torch.compile, list[Any]()

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda forward, **_: compile(forward, fullgraph=True, backend=counted))
    cert = hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(X, n=2_000)
    assert cert.provenance.compiled
    assert len(graphs) == 1  # for the check's number of threads, and none for a worker's


def test_a_pass_that_torch_counts_as_none_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def miscounted(scores: Tensor, calls: int) -> Tensor:
        if calls % 3 == 0:
            raise RuntimeError(
                "torch.compile with fullgraph=True found no compiled frames. Compilation was not attempted"
            )
        return scores

    found = []
    for fault in (lambda scores, _: scores, miscounted):
        with monkeypatch.context() as patch:
            stand_in(patch, fault)
            found.append(hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(X, n=2_000, seed=1))
    assert found[0] == found[1]
    assert found[1].provenance.compiled


def test_what_was_compiled_and_turns_wrong_later_gives_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, lambda scores, calls: scores if calls < 9 else scores.flip(1))
    with pytest.raises(ModelError, match="from call to call"):
        hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(X, n=2_000)


def test_a_cluster_compiles_by_the_work_of_one_input_alone() -> None:
    model = TorchModel(small_net())
    model.validate(torch.rand(4, 1, 6, 6))
    assert model.flops == 2 * (5 * 9 * 36 + 180 * 4)
    for work, compiled in ((1e12, False), (1e14, True)):
        assert model.worth_compiling(int(work / model.flops)) is compiled


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Compiling costs nothing, and gives the module; the calls of each graph."""
    monkeypatch.setattr("holdfast.models.torch.expected_cost", lambda *_: 0.0)
    return stand_in(monkeypatch, lambda scores, _: scores)


def test_many_inputs_begin_uncompiled_and_each_is_sampled_one_way_which_it_records(cheap: list[list[int]]) -> None:
    xs, net = torch.from_numpy(images(7)), small_net()
    said: list[str] = []
    smoothed = hf.SmoothedClassifier(net, 0.3)
    requests = [CertifyRequest(x, 1, k, 12, 6_000) for k, x in enumerate(xs)]
    found = list(smoothed.run_requests(requests, 0.0, 64, inputs=7, say=said.append))
    ways = [request.compiled for request in found]
    assert ways == sorted(ways)
    assert (ways[0], ways[-1]) == (False, True)
    assert [text for text in said if text] == ["compiling once, about 0 s"]
    assert said[-1] == ""
    alike = {way: hf.SmoothedClassifier(net, 0.3, compile=way) for way in (False, True)}
    for k, request in enumerate(found):
        one = CertifyRequest(xs[k], 1, k, 12, 6_000)
        same = next(alike[request.compiled].run_requests([one], 0.0, 64)).answer
        assert request.answer.evidence == same.evidence
    assert len(cheap) == 2


def test_certificates_record_which_way_their_own_copies_were_counted(cheap: list[list[int]]) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    many = smoothed.certify_many(torch.from_numpy(images(7)), n=6_000, seed=1)
    assert not many[0].provenance.compiled
    assert many[-1].provenance.compiled
    assert smoothed.certify(X, n=500).provenance.compiled  # it is compiled already
    assert not smoothed.certify(X, n=500, batch=16).provenance.compiled  # not for these batches
    assert len(cheap) == 1


def test_single_calls_are_compiled_once_enough_was_spent_by_them(cheap: list[list[int]]) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    assert [smoothed.certify(X, n=500).provenance.compiled for _ in range(3)] == [False, True, True]
    decisions = hf.SmoothedClassifier(small_net(), 0.3)
    for _ in range(2):
        decisions.decide(X, at_least=0.5, radius=0.1, n_max=2_000)
    assert decisions.certify(X, n=500).provenance.compiled
    assert len(cheap) == 2


@pytest.mark.parametrize("asked", [True, False])
def test_who_asks_for_either_gets_it_from_the_first_batch_on(asked: bool, cheap: list[list[int]]) -> None:
    many = hf.SmoothedClassifier(small_net(), 0.3, compile=asked).certify_many(torch.from_numpy(images(3)), n=2_000)
    assert {cert.provenance.compiled for cert in many} == {asked}
    assert len(cheap) == asked


def test_what_turns_out_wrong_when_it_is_compiled_goes_on_uncompiled(
    monkeypatch: pytest.MonkeyPatch, cheap: list[list[int]]
) -> None:
    stand_in(monkeypatch, lambda scores, _: scores.flip(1))
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    with pytest.warns(RuntimeWarning, match="runs uncompiled"):
        many = smoothed.certify_many(torch.from_numpy(images(7)), n=6_000)
    assert not any(cert.provenance.compiled for cert in many)
    assert not smoothed.certify(X, n=500).provenance.compiled


def test_how_long_compiling_took_is_kept_beside_the_compilers_results(
    cheap: list[list[int]], compile_times: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.SmoothedClassifier(small_net(), 0.3, compile=True).certify(X, n=500)
    (kept,) = compile_times.iterdir()
    kept.write_text("7.5")
    known = TorchModel(small_net(seed=3)).compile_rule(X.shape)  # other weights are the same graph
    assert known.cost == 7.5
    assert TorchModel(small_net()).compile_rule(torch.Size((1, 8, 8))).cost == 0.0
    assert TorchModel(small_net(), compiled=False).compile_rule(X.shape).cost == float("inf")
    time = TorchModel(small_net()).compile_time(X.shape)
    time.remember(9.0)
    assert time.seconds == 9.0
    kept.unlink()
    time.remember(9.0)
    assert time.seconds == 4.5  # it will find the compiler's results
    monkeypatch.setattr("holdfast.models.fast.compile_times._folder", lambda: kept)
    TorchModel(small_net()).compile_time(X.shape).remember(1.0)  # a file: there is no such folder
    assert TorchModel(small_net()).compile_time(X.shape).seconds is None


def test_what_was_compiled_at_one_precision_is_not_found_at_another() -> None:
    """torch's key does not tell strict convolutions from TensorFloat-32."""
    from torch._inductor.codecache import FxGraphHashDetails

    keys, names = set(), ("float32", "tf32-convolutions")
    for name in names:
        with precision_named(name, GPU).rules(), compiling(precision_named(name, GPU)):
            keys.add(str(FxGraphHashDetails(None, [], {}, []).cache_key_tag))
    assert keys == set(names)
    assert torch.compiler.config.cache_key_tag == ""


DESCRIPTIONS = {
    "": (True, True),  # the library's
    "BLOCK_M=128, BLOCK_N=64, SPARSE_Q_BLOCK_SIZE=128, num_stages=3, num_warps=8": (True, True),  # attention
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, KERNEL_H=4, UNROLL=False, num_stages=2, num_warps=4": (True, True),
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, KERNEL_H=4, UNROLL=False, num_stages=2, num_warps=8": (False, False),
    "BLOCK_K=64, BLOCK_M=128, BLOCK_N=64, KERNEL_H=3, UNROLL=False, num_stages=3, num_warps=16": (False, False),
    "BLOCK_K=64, BLOCK_M=128, BLOCK_N=64, KERNEL_H=1, UNROLL=True, num_stages=3, num_warps=8": (True, False),
    "BLOCK_K=16, BLOCK_M=256, BLOCK_N=64, EVEN_K=True, GROUP_M=8, num_stages=2, num_warps=4": (True, False),
}


def test_kernels_that_are_known_to_be_wrong_are_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    low, full = (precision_named(name, CPU) for name in ("bfloat16", "float32"))
    folded = nn.Conv2d(3, 64, 7, 2, 3)
    folded.__class__ = FoldedConv2d
    known = "test_configs.autotune_choice_desc_regex"
    assert options_for(folded, low) == {}  # not on a GPU
    for selective in (True, False):
        monkeypatch.setattr("torch._inductor.list_options", lambda selective=selective: [known] if selective else [])
        options: dict[Any, Any] = {}
        for width in (64, 2_048):
            monkeypatch.setattr("holdfast.models.fast.compile._widest", lambda _, width=width: width)
            options |= {(width, precision.name): options_for(folded, precision) for precision in (low, full)}
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


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7, (3, 6)])
@pytest.mark.parametrize("padding", [0, 1, 3, (1, 2)])
@pytest.mark.parametrize("size", [(16, 16), (17, 24), (9, 31)])
def test_a_folded_convolution_gives_the_same_sums(kernel: Any, padding: Any, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    for channels in (1, 3, 4):
        conv = nn.Conv2d(channels, 6, kernel, 2, padding).double()
        rows = torch.randn(2, channels, *size, dtype=torch.float64)
        expected = conv(rows)
        assert FoldedConv2d.suits(conv)
        conv.__class__ = FoldedConv2d
        assert torch.allclose(conv(rows), expected, rtol=0, atol=1e-12)


def test_only_convolutions_that_can_be_folded_are(monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[dict[str, Any]] = [{}, {"stride": (2, 1)}, {"stride": 2, "dilation": 2}, {"stride": 2, "groups": 3}]
    others += [{"stride": 2, "padding_mode": "reflect"}, {"padding": "same"}]
    unsuited = [nn.Linear(3, 3), nn.Conv2d(8, 8, 3, 2), *(nn.Conv2d(3, 6, 3, **other) for other in others)]
    for name in ("forward", "_conv_forward"):
        unsuited.append(nn.Conv2d(3, 6, 3, 2))
        setattr(unsuited[-1], name, lambda *_: torch.zeros(1))
    assert not any(map(FoldedConv2d.suits, unsuited))
    for name in ("forward", "_conv_forward"):
        assert FoldedConv2d.suits(nn.Conv2d(3, 6, 3, 2))
        with monkeypatch.context() as changed:
            changed.setattr(nn.Conv2d, name, lambda *_: torch.zeros(1))
            assert not FoldedConv2d.suits(nn.Conv2d(3, 6, 3, 2))


@pytest.mark.parametrize(("precision", "folds"), [("bfloat16", True), ("float32", False)])
def test_a_replica_with_a_folded_first_layer_answers_alike_and_follows_the_weights(
    monkeypatch: pytest.MonkeyPatch, precision: str, folds: bool
) -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(3, 16, 7, 2, 3)
    model = TorchModel(
        nn.Sequential(first, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)), precision=precision
    )
    forward, folded = FoldedConv2d.forward, itertools.count()
    monkeypatch.setattr(FoldedConv2d, "forward", lambda self, x: (forward(self, x), next(folded))[0])
    monkeypatch.setattr("holdfast.models.fast.compile._widest", lambda _: 2_048)
    replica, rows = model.replicate(CPU), torch.rand(4, 3, 20, 20)
    assert replica is not None
    for _ in range(2):
        replica.refresh()
        with replica.session():
            found = replica.probabilities(rows)
        with model.session():
            assert torch.allclose(found, model.probabilities(rows), atol=0.02)
        nn.init.normal_(first.weight, std=3)
    assert next(folded) == (2 if folds else 0)
    assert type(first) is nn.Conv2d
