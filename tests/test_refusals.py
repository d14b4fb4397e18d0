"""Clear refusals before any sampling: what was expected, what came, what to do."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.certificates.feasibility import smallest_n, smallest_n_for_label
from holdfast.errors import reading
from holdfast.inputs import check_input, on_grid
from holdfast.measures import DEFAULT_MEASURES, PredictionScore
from networks import Recorder, images, small_net

X = images(1)[0]
NOISE = hf.Gaussian(0.3)


class Answers(nn.Module):
    """Ignores its input and returns what it was told to."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x)


@pytest.mark.parametrize("sigma", [0, -0.25, float("nan"), float("inf"), "0.25", True, None])
def test_sigma_must_be_a_positive_number(sigma: Any) -> None:
    with pytest.raises(hf.InvalidArgument, match="sigma must be a positive number"):
        hf.SmoothedClassifier(small_net(), sigma)


@pytest.mark.parametrize(
    ("argument", "value", "complaint"),
    [
        ("alpha", 0.7, r"alpha must be in \(0, 0.5\].* got 0.7"),
        ("alpha", 0.0, "alpha must be in"),
        ("alpha", float("nan"), "alpha must be in"),
        ("n", 0, "n must be a whole number, at least 1 and at most 1,000,000,000, got 0"),
        ("n", 10**15, "n must be a whole number, at least 1 and at most 1,000,000,000, got 1000000000000000"),
        ("n", 1e5, "n must be a whole number"),
        ("n0", 0, "n0 must be a whole number, at least 1 and at most 4,194,304, got 0"),
        ("n0", -3, "n0 must be"),
        ("n0", 2**23, "n0 must be"),
        ("claims", 3, r"claims must be one or more of label, score, margin, each once, got \(3,\)"),
        ("claims", (), "claims must be one or more of label, score, margin"),
        ("claims", ("score", "score"), "each once"),
        ("claims", ("confidence",), "got .*confidence"),
        ("sides", "upper", 'sides must be "lower" or "both", got \'upper\''),
        ("method", "cdf", r"method must be one such as CDF\(band=DKW\(\)\)"),
        ("seed", -1, "seed must be"),
        ("seed", 2**128, "seed must be"),
        ("batch", 0, "batch must be a whole number"),
    ],
)
def test_arguments_out_of_range_are_refused_before_the_model_is_asked(
    argument: str, value: Any, complaint: str
) -> None:
    net = Recorder(small_net())
    options: dict[str, Any] = {"n": 200, argument: value}
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.SmoothedClassifier(net, 0.2).certify(X, **options)
    assert net.rows == []


def test_an_n_that_can_never_certify_is_refused_with_the_smallest_that_can() -> None:
    net = Recorder(small_net())
    share = 0.001 / 3
    of_measures = [smallest_n(measure.info, share, "lower", hf.CDF(), hf.Gaussian(1.0)) for measure in DEFAULT_MEASURES]
    least = max(smallest_n_for_label(share), *of_measures)
    complaint = rf"n = 10 can never certify .* at alpha = 0.001.*; at least {least} are needed"
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.SmoothedClassifier(net, 0.2).certify(X, n=10)
    assert net.rows == []
    sure = hf.SmoothedClassifier(hf.ProbitModel(np.zeros(2), 9.0), 0.2, outputs="probabilities")
    cert = sure.certify(np.zeros(2, dtype=np.float32), n=least, n0=5)
    assert not cert.abstained
    assert cert.label.certified
    assert cert.score.lower(0.0) > 0.5


def test_a_radius_that_no_number_of_samples_reaches_is_refused_and_one_in_reach_of_the_noise_is_not() -> None:
    info = PredictionScore().info
    with pytest.raises(hf.InvalidArgument, match="no number certifies the score with tangent-"):
        smallest_n(info, 0.001, "lower", hf.Tangent(radius=5.0), hf.Gaussian(0.25))
    near = [
        smallest_n(info, 0.001, "lower", hf.Tangent(radius=2.0 * sigma), hf.Gaussian(sigma)) for sigma in (0.25, 4.0)
    ]
    assert near[0] == near[1] < 2_000


@pytest.mark.parametrize("alpha", [1e-9, 0.001, 0.05, 0.5])
def test_the_smallest_n_is_where_full_agreement_begins_to_certify(alpha: float) -> None:
    for claim, method in (("score", hf.CDF()), ("score", hf.CDF(hf.DKW())), ("score", hf.Naive()), ("label", hf.CDF())):
        label = claim == "label"
        n = (
            smallest_n_for_label(alpha)
            if label
            else smallest_n(PredictionScore().info, alpha, "lower", method, hf.Gaussian(1.0))
        )

        def certifies(count: int, claim: str = claim, method: hf.Method = method) -> bool:
            if claim == "label":
                return hf.LabelCertificate(count, count, 1.0, alpha).certified
            return hf.bound(hf.ScoreSamples(np.ones(count), sigma=1.0), alpha=alpha, method=method).lower(0.0) > 0.5

        assert certifies(n)
        assert n == 1 or not certifies(n - 1)


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        (np.full((1, 6, 6), np.nan, dtype=np.float32), "must be finite, got NaN or infinity in 36 of 36"),
        (np.where(X > 2, X, np.inf), "must be finite"),
        (X * 255, r"values go from .* where \[0, 1\] is expected.*normalisation inside.*Normalize"),
        ((X - 0.5) / 0.2, r"\[0, 1\] is expected"),
        ((X * 255).astype(np.uint8), "must be floating point, got uint8; .* x / 255"),
        (X[:, :0], "is empty"),
        (X.tolist(), "torch tensor or a NumPy array, got list"),
    ],
)
def test_inputs_that_cannot_be_meant_are_refused(x: Any, complaint: str) -> None:
    net = Recorder(small_net())
    with pytest.raises(hf.InvalidInput, match=complaint):
        hf.SmoothedClassifier(net, 0.2).certify(x, n=200)
    assert net.rows == []


def test_every_input_of_a_batch_is_checked_before_any_is_sampled() -> None:
    xs = images(40)
    xs[39, 0, 0, 0] = np.nan
    net = Recorder(small_net())
    with pytest.raises(hf.InvalidInput, match="input 39 must be finite"):
        hf.SmoothedClassifier(net, 0.2).certify_many(xs, n=200)
    assert net.rows == []
    with pytest.raises(hf.InvalidInput, match="input 1 has shape"):
        hf.SmoothedClassifier(net, 0.2).certify_many([X, images(1)[0][:, :5]], n=200)
    with pytest.raises(hf.InvalidInput, match="nothing to certify"):
        hf.SmoothedClassifier(net, 0.2).certify_many([], n=200)
    with pytest.raises(hf.InvalidInput, match=r"use certify\(x\)"):
        hf.SmoothedClassifier(net, 0.2).certify_many(np.zeros(3, dtype=np.float32), n=200)


def test_other_units_are_welcome_when_asked_for_or_when_the_input_is_no_image() -> None:
    hf.SmoothedClassifier(small_net(), 0.2, inputs="any").certify(X * 255, n=50, n0=5)
    flat = nn.Sequential(nn.Linear(3, 2))
    hf.SmoothedClassifier(flat, 0.2).certify(np.array([100.0, -5.0, 3.0]), n=50, n0=5)
    with pytest.raises(hf.InvalidArgument, match="inputs must be"):
        hf.SmoothedClassifier(flat, 0.2, inputs="pictures")


def rounded(x: Tensor, each: float) -> Tensor:
    """Probabilities; those of the last row were rounded."""
    return torch.cat((torch.tensor([[0.2, 0.3, 0.5]]).expand(len(x) - 1, 3), torch.full((1, 3), each)))


@pytest.mark.parametrize(
    ("outputs", "make", "complaint"),
    [
        ("logits", lambda x: torch.zeros(len(x)), r"shape \(8, classes\) .* got \(8,\).*ConstantPad1d"),
        ("logits", lambda x: torch.zeros(len(x), 1), "at least 2 classes"),
        ("logits", lambda x: torch.zeros(len(x), 3, 3), r"got \(8, 3, 3\)"),
        ("logits", lambda _: torch.zeros(1, 3), r"got \(1, 3\)"),
        ("logits", lambda x: torch.zeros(len(x), 3, dtype=torch.int64), "class indices"),
        ("logits", lambda x: torch.full((len(x), 3), float("nan")), "NaN or infinity"),
        ("logits", lambda x: (torch.zeros(len(x), 3),), "got tuple"),
        ("logits", lambda x: x @ torch.zeros(7, 2), r"failed on a batch of shape \(8, 1, 6, 6\)"),
        ("logits", lambda x: torch.full((len(x), 4), 0.25), 'outputs="probabilities"'),
        ("probabilities", lambda x: torch.full((len(x), 4), 0.5), "sum 2.*outputs=.logits."),
        ("probabilities", lambda x: torch.tensor([[1.5, -0.5]]).expand(len(x), 2), "minimum -0.5"),
        ("probabilities", lambda x: rounded(x, 0.34), "minimum 0.34 and sum 1.02; divide each row by its sum"),
    ],
)
def test_a_model_whose_answer_is_not_a_classifiers_is_refused(outputs: str, make: Any, complaint: str) -> None:
    with pytest.raises(hf.ModelError, match=complaint):
        hf.SmoothedClassifier(Answers(make), 0.2, outputs=outputs).certify(X, n=200)


def test_a_model_that_turns_bad_while_sampling_yields_no_certificate() -> None:
    calls = []

    def later(x: Tensor) -> Tensor:
        calls.append(1)
        answer = torch.zeros(len(x), 3)
        if len(calls) > 5:
            answer[0, 0] = float("nan")
        answer[:, 1] = 2
        return answer

    with pytest.raises(hf.ModelError, match="some noisy copies"):
        hf.SmoothedClassifier(Answers(later), 0.2).certify(X, n=2_000)


def test_models_and_devices_that_are_not_there_are_refused() -> None:
    for nothing in (None, "resnet50", np.zeros((6, 4))):
        with pytest.raises(
            hf.InvalidArgument, match=r"expected a torch.nn.Module .* a Model, or a function of batches"
        ):
            hf.SmoothedClassifier(nothing, 0.2)
    with pytest.raises(hf.InvalidArgument, match='outputs must be "logits" or "probabilities"'):
        hf.SmoothedClassifier(small_net(), 0.2, outputs="scores")
    with pytest.raises(hf.InvalidArgument, match="device must be"):
        hf.SmoothedClassifier(small_net(), 0.2, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(hf.InvalidArgument, match="sees no CUDA GPU"):
            hf.SmoothedClassifier(small_net(), 0.2, device="cuda")


@pytest.mark.parametrize(
    ("values", "options", "complaint"),
    [
        ([0.5, 1.2], {}, r"lie in their support \[0, 1\], got 1.2 at position 1"),
        ([0.5, float("nan")], {}, "must be finite"),
        ([], {}, "non-empty one-dimensional"),
        ([[0.5]], {}, r"shape \(1, 1\)"),
        ([-0.5], {}, r"support=\(a, b\)"),
        (["a"], {}, "must be a number or an array of numbers"),
    ],
)
def test_scores_outside_their_support_are_refused(values: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(hf.InvalidInput, match=complaint):
        hf.ScoreSamples(values, sigma=0.2, **options)


def test_curves_refuse_questions_that_make_no_sense() -> None:
    curve = hf.bound(hf.ScoreSamples(np.ones(5), sigma=0.2), alpha=0.1)
    with pytest.raises(hf.InvalidArgument, match="nonnegative"):
        curve.lower(-0.1)
    with pytest.raises(hf.InvalidArgument, match="exactly one of"):
        curve.radius()  # type: ignore[call-overload]
    with pytest.raises(hf.InvalidArgument, match="nan"):
        curve.radius(at_least=float("nan"))
    with pytest.raises(hf.InvalidArgument, match="support must be a pair"):
        hf.ScoreSamples(np.ones(5), support=(1.0, 0.0), sigma=0.2)
    with pytest.raises(hf.InvalidArgument, match="takes a band"):
        hf.CDF(band=hf.Hoeffding())  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="takes a mean bound"):
        hf.Naive(mean=hf.DKW())  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="merge only with equal"):
        hf.ScoreSamples([0.5], sigma=0.2).histogram() + hf.ScoreSamples([0.5], sigma=0.3).histogram()


def test_a_network_whose_answer_depends_on_the_rest_of_the_batch_is_refused() -> None:
    norm = nn.BatchNorm1d(36, track_running_stats=False)
    net = nn.Sequential(nn.Flatten(), norm, nn.Linear(36, 3))
    with torch.no_grad():
        net[2].weight.mul_(5)  # type: ignore[operator]
    with pytest.raises(hf.ModelError, match="with the other rows of the batch"):
        hf.SmoothedClassifier(net, 0.2).certify(X, n=200)


def test_an_input_that_float32_cannot_hold_is_refused() -> None:
    flat = nn.Sequential(nn.Linear(1, 2))
    with pytest.raises(hf.InvalidInput, match="rounded to float32"):
        hf.SmoothedClassifier(flat, 1.0, step=0).certify(np.array([1.7e9 + 63]), n=200)
    with pytest.raises(hf.InvalidInput, match=r"too many steps of 2\^-12.*centre and scale"):
        hf.SmoothedClassifier(flat, 1.0).certify(np.array([1.7e9 + 63]), n=200)
    hf.SmoothedClassifier(flat, 1.0).certify(np.array([0.1]), n=200)


def test_a_support_far_from_zero_is_refused_because_rounding_would_reach_the_bound() -> None:
    with pytest.raises(hf.InvalidArgument, match="subtract a constant"):
        hf.ScoreSamples(np.full(5, 1e6 + 0.5), support=(1e6, 1e6 + 1), sigma=1.0)


def test_a_single_claim_may_be_given_as_a_word() -> None:
    cert = hf.SmoothedClassifier(small_net(), 0.2).certify(X, n=200, claims="score", alpha=np.float64(0.01))
    assert cert.claims == ("score",)
    assert "99%" in str(cert)


def test_more_votes_than_copies_are_refused() -> None:
    with pytest.raises(hf.InvalidArgument, match="between 0 and n"):
        hf.LabelCertificate(11, 10, 1.0, 0.1)


@pytest.mark.parametrize("shape", [(0, 4), (-1, 3)], ids=["classes", "rows"])
def test_a_model_whose_answer_changes_its_shape_while_sampling_is_named(shape: tuple[int, int]) -> None:
    calls = []

    def later(x: Tensor) -> Tensor:
        calls.append(1)
        more, classes = shape if len(calls) > 5 else (0, 3)
        return torch.arange(classes).expand(len(x) + more, classes).float()

    with pytest.raises(hf.ModelError, match=rf"shape \(\d+, {shape[1]}\) instead of \(\d+, 3\)"):
        hf.SmoothedClassifier(Answers(later), 0.2).certify(X, n=2_000)


def test_a_model_that_raises_while_sampling_is_named() -> None:
    calls = []

    def later(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) > 5:
            raise RuntimeError("out of luck")
        return torch.tensor([[0.0, 2.0]]).expand(len(x), 2)

    with pytest.raises(hf.ModelError, match="out of luck"):
        hf.SmoothedClassifier(Answers(later), 0.2).certify(X, n=2_000)


def test_foreign_values_are_refused_in_words() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.2)
    loader: Any = torch.utils.data.DataLoader([torch.zeros(1, 6, 6)])  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidInput, match="DataLoader's dataset"):
        smoothed.certify_many(loader, n=200)
    for side in ("at_least", "at_most"):
        curve: Any = hf.bound(hf.ScoreSamples(np.ones(3), sigma=1.0), alpha=0.1, sides="both")
        with pytest.raises(hf.InvalidArgument, match=f"{side} must be a number .* got 'x'"):
            curve.radius(**{side: "x"})
    with pytest.raises(hf.InvalidArgument, match="expected ScoreSamples"):
        hf.bound(np.ones(3), alpha=0.1)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="radius must be a number"):
        hf.bound(hf.ScoreSamples(np.ones(3), sigma=1.0), alpha=0.1).lower("a")  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="radius must be a number or an array of numbers, got True"):
        hf.bound(hf.ScoreSamples(np.ones(3), sigma=1.0), alpha=0.1).lower(True)
    with pytest.raises(hf.InvalidArgument, match="support must be a pair"):
        hf.ScoreSamples(np.ones(3), support=1.0, sigma=1.0)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="batch must be"):
        smoothed.certify(X, n=200, batch=10**9)
    with pytest.raises(hf.InvalidArgument, match="positive std"):
        hf.Normalize([0.5, 0.4], [1.0])
    with pytest.raises(hf.ModelError, match="expected a batch of images with 3 channels"):
        hf.SmoothedClassifier(nn.Sequential(hf.Normalize([0.5] * 3, [0.5] * 3), small_net()), 0.2).certify(X, n=200)
    damaged = smoothed.certify(X, n=200).to_dict()
    for key, value in {"predicted": "foo", "alpha": "foo", "method": None, "n0": -1, "evidence": 3}.items():
        with pytest.raises(hf.InvalidArgument):
            hf.Certificate.from_dict({**damaged, key: value})


ODD_INPUTS: dict[str, tuple[Any, str]] = {
    "objects": (np.array([None, 1.0], dtype=object), "must be floating point"),
    "text": (np.array(["a", "b"]), "must be floating point"),
    "long": (np.zeros(3, dtype=np.longdouble), "must be floating point"),
    "masked": (np.ma.masked_array(np.zeros(3), [True, False, False]), "torch tensor or a NumPy array, got MaskedArray"),
    "sparse": (torch.eye(3).to_sparse(), "dense tensor"),
    "meta": (torch.zeros(3, device="meta"), "dense tensor"),
    "infinity": (torch.tensor([0.0, torch.inf, 1.0]), "NaN or infinity in 1 of 3"),
    "minus infinity": (np.array([0.0, -np.inf, -np.inf]), "NaN or infinity in 2 of 3"),
}


@pytest.mark.parametrize("name", ODD_INPUTS)
def test_arrays_that_hold_no_ordinary_numbers_are_refused(name: str) -> None:
    x, reason = ODD_INPUTS[name]
    with pytest.raises(hf.InvalidInput, match=reason):
        check_input(x, "any")


def test_inputs_are_taken_as_they_are_whatever_their_layout_and_never_shared() -> None:
    meant = np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 16
    both = torch.complex(torch.zeros(3, 2, 2), -torch.from_numpy(meant)).conj().imag
    for x in (
        meant.astype(">f4"),
        meant.astype(">f8"),
        meant.astype(np.float16),
        np.asfortranarray(meant),
        np.lib.stride_tricks.as_strided(meant, writeable=False),
        torch.from_numpy(meant).requires_grad_(),
        torch.from_numpy(meant).to(torch.bfloat16).double(),
        torch.from_numpy(np.ascontiguousarray(meant.transpose(1, 2, 0))).permute(2, 0, 1),
        both,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            taken, shift, _ = on_grid(check_input(x, "auto"), 2.0**-12, NOISE)
        assert shift == 0
        assert taken.dtype == torch.float32
        assert taken.is_contiguous()
        assert np.array_equal(taken.numpy(), meant)
        taken.fill_(9.0)
        assert np.array_equal(np.asarray(x.detach().resolve_neg() if isinstance(x, torch.Tensor) else x), meant)
    assert check_input(np.array(1.6), "images", leeway=1.0) == 1.5
    with pytest.raises(hf.InvalidInput, match="moves by"):
        on_grid(np.array([1e6 + 0.013]).astype(">f8"), 0.0, NOISE)


def test_collections_that_cannot_be_indexed_are_refused() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.2)
    for xs in ((x for x in [X]), {"a": X}, {1.0}):
        with pytest.raises(hf.InvalidInput, match="can be indexed"):
            smoothed.certify_many(xs, n=200)  # type: ignore[arg-type]
    for device in ("meta", "mps"):
        with pytest.raises(hf.InvalidArgument, match="device must be"):
            hf.SmoothedClassifier(small_net(), 0.2, device=device)


def test_labels_that_are_no_class_numbers_are_refused_before_sampling(tmp_path: Path) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.2)
    for labels in ([[0], [1]], ["a", "b"], [0.0, 1.5], [True, False]):
        with pytest.raises(hf.InvalidArgument, match="labels must be one class number for each input"):
            hf.certify_run(smoothed, np.stack([X, X]), labels, out=tmp_path / "run")
    with pytest.raises(hf.InvalidArgument, match="settings must be"):
        hf.certify_run(smoothed, np.stack([X, X]), [0, 1], out=tmp_path / "run", settings={"n": 5})  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


THREE: Any = 3
BAND: Any = hf.Empirical()
NETS: Any = (small_net(), hf.load("fashion-mnist"))


def never(*_: Any) -> Any:
    raise AssertionError("the model was asked")


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda s: s.certify_classes(X, n=10**15), "n must be .* at most 1,000,000,000"),
        (
            lambda s: s.certify_classes(X, n=1),
            "n = 1 can never certify the scores or the gaps at alpha = 0.001 .*needed",
        ),
        (lambda s: s.decide(X, at_least=0.8, radius=0.1, n_max=10**15), "n_max must be .* at most 1,000,000,000"),
        (lambda s: s.find_radius(X, at_least=0.8, n_max=10**15), "n_max must be .* at most 1,000,000,000"),
        (lambda s: s.triage(X, 3), r"triage must be a Triage, as choose_threshold\(...\) .* got 3"),
        (lambda _: hf.decide(THREE, at_least=0.8, radius=0.1, sigma=0.25), "draw must be a function .* got 3"),
        (lambda _: hf.choose_threshold([THREE], radius=0.1), r"pairs of a certificate and its label.*labelled.* got 3"),
        (lambda _: hf.choose_threshold(THREE, radius=0.1), "pairs of a certificate and its label.* got 3"),
        (lambda _: hf.choose_threshold([(THREE, 2)], radius=0.1), r"got \(3, 2\)"),
        (lambda _: hf.HttpModel(THREE), "expected the URL of an endpoint.* got 3"),
        (lambda _: hf.OnnxModel(THREE), "expected an ONNX file or an onnxruntime.InferenceSession, got 3"),
        (lambda _: hf.Ensemble(NETS[0]), "a list of networks, .* got one Sequential, whose parts are layers"),
        (lambda _: hf.Ensemble(NETS[1]), r"a list of networks, such as \[net_a, net_b\], got one SmallCNN$"),
        (lambda _: hf.BestOf((hf.CDF(), BAND)), r"a band is a part of one: CDF\(band=Empirical\(\)\)"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_words_before_the_model_is_asked(call: Any, complaint: str) -> None:
    with pytest.raises(hf.HoldfastError, match=complaint):
        call(hf.SmoothedClassifier(Answers(never), 0.3))


def test_the_least_n_of_a_class_certificate_is_enough_for_two_classes() -> None:
    sure = Answers(lambda rows: torch.tensor([30.0, -30.0]).expand(len(rows), 2))
    smoothed, x = hf.SmoothedClassifier(sure, 0.3), np.full((1, 2, 2), 0.5, np.float32)
    with pytest.raises(hf.InvalidArgument) as refused:
        smoothed.certify_classes(x, n=1)
    least = int(str(refused.value).split("at least ")[1].split(" ")[0])
    found = smoothed.certify_classes(x, n=least)
    assert found.lower(0.0)[0] > 0.5
    assert found.winner_radius > 0
    with pytest.raises(hf.InvalidArgument, match=f"at least {least} are needed"):
        smoothed.certify_classes(x, n=least - 1)


@pytest.mark.parametrize("position", [500, -501, 10**9, "a", 1.0, None])
def test_a_position_beyond_the_data_is_an_index_error_in_words(position: Any) -> None:
    data = hf.datasets.load("fashion-mnist")
    with pytest.raises(
        IndexError, match="fashion-mnist has 500 inputs: expected a position from 0 to 499, got"
    ) as error:
        data[position]
    assert isinstance(error.value, hf.InvalidArgument)


@pytest.mark.parametrize("position", [True, slice(0, 2), [0, 1]])
def test_what_is_no_position_is_answered_with_how_to_take_several(position: Any) -> None:
    with pytest.raises(
        hf.InvalidArgument, match=r"got .*; give one whole number, and take several as \[data\[k\] for k in"
    ):
        hf.datasets.load("fashion-mnist")[position]


@pytest.mark.parametrize(
    "text",
    ["0.5", b"1", ["0.5"], np.array(["0.5"]), np.array(["2020"], dtype="M8[Y]"), pytest.param(10**400, id="large")],
)
def test_texts_and_dates_are_no_numbers(text: Any) -> None:
    scores = hf.ScoreSamples(np.full(10, 0.5), support=(0.0, 1.0), sigma=0.25)
    curve = hf.bound(scores, alpha=0.1)
    for ask in (curve.lower, lambda each: curve.radius(at_least=each), lambda each: hf.Scaled(np.sum, each)):
        with pytest.raises(hf.InvalidArgument, match="must be a number or an array of numbers, got"):
            ask(text)


def test_data_can_be_gone_through_by_position_as_python_does() -> None:
    class Positions:
        """Knows positions only: a loop over it ends at an IndexError."""

        def __getitem__(self, position: int) -> Any:
            return data[position]

    data = hf.datasets.load("fashion-mnist").every(100, None)
    assert [label for _, label in Positions()] == [label for _, label in data] == data.labels.tolist()  # type: ignore[attr-defined]
    assert data[-1][1] == data[len(data) - 1][1] == data[np.int64(-1)][1]  # type: ignore[index]


def test_what_a_library_says_of_every_weight_is_cut() -> None:
    with pytest.raises(hf.RunError) as error, reading("net", hf.RunError, "does not fit", remedy="take another"):
        raise RuntimeError("Missing keys: " + ", ".join(f"layer{k}.weight" for k in range(10_000)))
    assert str(error.value).startswith("net does not fit (RuntimeError: Missing keys: layer0.weight, ")
    assert str(error.value).endswith(" ...); take another")
    assert len(str(error.value)) < 700
