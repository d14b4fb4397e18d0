"""Ensembles: the average of the members' probabilities, and a model like any other in everything else."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from holdfast.models.fingerprint import fingerprint
from networks import Turned, images, small_net
from serving import SIGMA, running, small_served

X = images(1)[0]
ROWS = torch.from_numpy(images(40, seed=3))


def normalised_net(classes: int = 4) -> nn.Module:
    """Another architecture, with buffers, and with layers that answer otherwise in training mode."""
    torch.manual_seed(7)
    norm = nn.BatchNorm2d(3)
    assert norm.running_mean is not None
    nn.init.normal_(norm.running_mean)
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.Dropout(0.5), nn.Flatten(), nn.Linear(48, classes)).train()


def probabilities(net: nn.Module, rows: Tensor = ROWS, **settings: str) -> Tensor:
    model = hf.TorchModel(net, **settings)  # type: ignore[arg-type]
    with model.session():
        return model.probabilities(rows)


def members() -> list[nn.Module]:
    return [small_net(), normalised_net(), small_net(seed=2)]


def averaged(nets: list[nn.Module]) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The average by hand."""

    def function(batch: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = torch.from_numpy(batch)
        return torch.stack([net.eval()(rows).double().softmax(1) for net in nets]).mean(0).float().numpy()

    return function


def moved(one: hf.Certificate, other: hf.Certificate, measure: str) -> int:
    """By how many bins in all counts must be moved to make two histograms equal."""
    counts = [cert.evidence[measure].counts.astype(np.int64) for cert in (one, other)]
    return int(np.abs(np.cumsum(counts[0] - counts[1])).sum())


def test_an_ensembles_certificate_is_the_certificate_of_the_average_by_hand() -> None:
    ensemble = hf.SmoothedClassifier(hf.Ensemble(members()), SIGMA).certify(X, n=5_000, seed=1)
    by_hand = hf.SmoothedClassifier(averaged(members()), SIGMA, outputs="probabilities").certify(X, n=5_000, seed=1)
    alone = hf.SmoothedClassifier(members()[0], SIGMA).certify(X, n=5_000, seed=1)
    assert ensemble.predicted == by_hand.predicted
    assert ensemble.label == by_hand.label
    assert ensemble.label_radius == by_hand.label_radius
    for measure in ("score", "margin"):
        assert moved(ensemble, by_hand, measure) <= 20  # last digits, at the edge between two bins of 16,384
        assert moved(ensemble, alone, measure) > 100_000
    radii = np.linspace(0, 0.5, 11)
    assert ensemble.score.lower(radii) == pytest.approx(by_hand.score.lower(radii), abs=1e-6)


def test_the_bound_stays_below_the_closed_form_of_an_average_of_probit_models() -> None:
    # Along parallel weights one attack is the worst for every member, so the worst average is the average of the worst.
    w, x = np.array([1.2, -0.5, 0.8]), np.array([0.75, 0.25, 0.5], dtype=np.float32)
    nets = [hf.ProbitModel(w, 0.3), hf.ProbitModel(2 * w, -0.2)]
    smoothed = hf.SmoothedClassifier(hf.Ensemble(nets, outputs="probabilities"), 0.5)
    cert = smoothed.certify(x, n=50_000, seed=1)
    radii = np.array([0.0, 0.25, 0.5])
    worst = np.mean([net.worst_case(x, 0.5, radii) for net in nets], axis=0)
    assert cert.predicted == 0
    assert (cert.score.lower(radii) <= worst).all()
    assert cert.score.lower(0.0) == pytest.approx(worst[0], abs=0.02)


def test_the_order_of_members_changes_nothing_but_last_digits() -> None:
    first, second = probabilities(hf.Ensemble(members())), probabilities(hf.Ensemble(members()[::-1]))
    assert torch.allclose(first, second, rtol=1e-5, atol=1e-9)


def test_one_member_gives_its_own_probabilities_and_one_given_twice_counts_twice() -> None:
    a, b = small_net(), normalised_net()
    one, other = probabilities(a), probabilities(b)
    assert torch.allclose(probabilities(hf.Ensemble([a])), one, rtol=1e-5, atol=1e-9)
    assert torch.allclose(probabilities(hf.Ensemble([a, a, b])), (2 * one + other) / 3, rtol=1e-5, atol=1e-9)
    within = hf.Ensemble([hf.Ensemble([a, b]), a])
    assert torch.allclose(probabilities(within), (3 * one + other) / 4, rtol=1e-5, atol=1e-9)


class Fixed(nn.Module):
    """Gives every row the same answer."""

    row: Tensor

    def __init__(self, row: list[float], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("row", torch.tensor(row, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.row.expand(len(x), -1)


def test_probabilities_of_zero_and_far_logits_stay_finite_and_sum_to_one() -> None:
    sure = hf.Ensemble([Fixed([1.0, 0.0, 0.0]), Fixed([1.0, 0.0, 0.0])], outputs="probabilities")
    far = hf.Ensemble([Fixed([1e4, 0.0, -1e4]), Fixed([3e4, -3e4, 0.0], torch.bfloat16)])
    for ensemble in (sure, far):
        assert bool(torch.isfinite(ensemble(ROWS)).all())
        assert probabilities(ensemble)[0].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-30)
        assert hf.SmoothedClassifier(ensemble, SIGMA).certify(X, n=200).predicted == 0


def test_low_precision_members_are_averaged_in_float32() -> None:
    many = hf.Ensemble([Fixed([0.0, 6.0], torch.bfloat16)] * 7 + [Fixed([0.0, 5.5], torch.bfloat16)])
    exact = (7 / (1 + np.exp(-6.0)) + 1 / (1 + np.exp(-5.5))) / 8
    assert float(probabilities(many)[0, 1]) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(
    ("nets", "outputs", "said"),
    [
        ([small_net(), small_net(classes=3)], "logits", r"same classes, .* shapes \(8, 4\), \(8, 3\)"),
        ([small_net(), nn.Sequential(small_net(), nn.Softmax(1))], "logits", r"member 2 .* they are probabilities"),
        ([nn.Sequential(small_net(), nn.Softmax(1)), small_net()], "probabilities", r"member 2 .* sum to one, got"),
        ([nn.Flatten(0), small_net()], "logits", r"member 1 .* expected a tensor of shape"),
        ([small_net(), Fixed([float("nan"), 0.0, 0.0, 0.0])], "logits", r"member 2 .* expected finite"),
    ],
)
def test_members_that_cannot_be_averaged_are_refused_in_words_before_sampling(
    nets: list[nn.Module], outputs: str, said: str
) -> None:
    for net in (hf.Ensemble(nets, outputs=outputs), nn.Sequential(nn.Identity(), hf.Ensemble(nets, outputs=outputs))):
        with pytest.raises(hf.ModelError, match=said):
            hf.SmoothedClassifier(net, SIGMA).certify(X, n=100)


def test_what_is_no_list_of_modules_is_refused() -> None:
    with pytest.raises(hf.InvalidArgument, match="at least one"):
        hf.Ensemble([])
    with pytest.raises(hf.InvalidArgument, match=r"got function; .* certify a function that averages"):
        hf.Ensemble([small_net(), averaged([])])  # type: ignore[list-item]
    with pytest.raises(hf.InvalidArgument, match="outputs must be"):
        hf.Ensemble([small_net()], outputs="scores")


def test_the_fingerprint_is_that_of_all_members_and_of_what_they_return() -> None:
    known = fingerprint(hf.Ensemble(members()))
    assert known == fingerprint(hf.Ensemble(members())) is not None
    changed = members()
    with torch.no_grad():
        next(changed[2].parameters()).view(-1)[0] += 1e-3
    others = [
        changed,
        members()[:2],
        [*members(), members()[0]],
        [members()[0], normalised_net(), small_net(seed=3)],
    ]
    found = {fingerprint(hf.Ensemble(each)) for each in others}
    assert len(found | {known, fingerprint(hf.Ensemble(members(), outputs="probabilities")), None}) == 7


def test_a_run_is_resumed_and_refused_with_another_member(tmp_path: Path) -> None:
    class Interrupted(hf.SmoothedClassifier):
        def stream(self, *given: object, **options: object):  # type: ignore[no-untyped-def]
            yield next(super().stream(*given, **options))  # type: ignore[arg-type]
            raise KeyboardInterrupt

    def certified(classifier: hf.SmoothedClassifier) -> list[hf.Certificate]:
        settings = hf.Settings(n=300, n0=20)
        run = hf.certify_run(classifier, images(3), [0, 1, 2], out=tmp_path / "a", settings=settings, seed=5)
        return [entry.certificate for entry in run]

    with pytest.raises(KeyboardInterrupt):
        certified(Interrupted(hf.Ensemble(members()), SIGMA))
    assert len(hf.Run.open(tmp_path / "a")) == 1
    with pytest.raises(hf.RunError, match="weights"):
        certified(hf.SmoothedClassifier(hf.Ensemble([*members()[:2], small_net(seed=3)]), SIGMA))
    smoothed = hf.SmoothedClassifier(hf.Ensemble(members()), SIGMA)
    expected = [smoothed.certify(x, n=300, n0=20, seed=5, index=k) for k, x in enumerate(images(3))]
    assert certified(hf.SmoothedClassifier(hf.Ensemble(members()), SIGMA)) == expected


def test_its_gradient_is_the_averages() -> None:
    model = hf.TorchModel(hf.Ensemble(members()))
    with model.session():
        found = model.gradient(ROWS, lambda answer: answer[:, 1])
    rows = ROWS.clone().requires_grad_(True)
    torch.stack([net.eval()(rows).softmax(1) for net in members()]).mean(0)[:, 1].sum().backward()  # type: ignore[no-untyped-call]
    assert found is not None
    assert rows.grad is not None
    assert float(rows.grad.abs().max()) > 0.01
    assert torch.allclose(found, rows.grad, rtol=1e-4, atol=1e-6)
    sure = hf.TorchModel(hf.Ensemble([Fixed([1e4, 0.0]), nn.Sequential(nn.Flatten(), nn.Linear(36, 2))]))
    with sure.session():
        steep = sure.gradient(1e4 * ROWS, lambda answer: answer[:, 1])
    assert steep is not None
    assert bool(torch.isfinite(steep).all())


def test_an_attack_lowers_the_average_no_further_than_its_certificate() -> None:
    smoothed = hf.SmoothedClassifier(hf.Ensemble([small_net(), small_net(seed=2)]), SIGMA, inputs="images")
    cert = smoothed.certify(X, n=5_000, seed=1)
    found = hf.attack(smoothed, X, 0.2, n=5_000, seed=1)
    assert found.gradients
    assert cert.score.lower(0.2) <= found.interval()[1]
    assert found.mean() < cert.evidence["score"].survival_lower().mean - 0.02


def test_several_workers_another_batch_and_another_process_give_the_same_counts(two_threads: None) -> None:
    smoothed = hf.SmoothedClassifier(hf.Ensemble(members()), SIGMA)
    cert = smoothed.certify(X, n=3_000, seed=1, batch=64)
    assert smoothed.model.replicate(torch.device("cpu")) is not None
    torch.set_num_threads(1)
    assert smoothed.certify(X, n=3_000, seed=1, batch=500).evidence == cert.evidence
    sent = smoothed.model.builder()(torch.device("cpu"))
    assert sent.fingerprint() == smoothed.fingerprint
    with sent.session():
        assert torch.equal(sent.probabilities(ROWS), probabilities(hf.Ensemble(members())))


def test_bfloat16_rounds_the_members_and_not_the_average() -> None:
    smoothed = hf.SmoothedClassifier(hf.Ensemble(members()), SIGMA, precision="bfloat16")
    cert = smoothed.certify(X, n=500, seed=1)
    assert cert.provenance.precision == "bfloat16"
    rounded, plain = probabilities(hf.Ensemble(members()), precision="bfloat16"), probabilities(hf.Ensemble(members()))
    assert 0 < float((rounded - plain).abs().max()) < 0.1
    alone = torch.stack([probabilities(net, precision="bfloat16") for net in members()]).mean(0)
    assert torch.allclose(rounded, alone, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
def test_compiled_it_is_one_graph_with_the_same_answers() -> None:
    compiled = hf.SmoothedClassifier(hf.Ensemble([small_net(), Turned(small_net(seed=2))]), SIGMA, compile=True)
    cert = compiled.certify(X, n=500, seed=1, batch=100)
    plain = hf.SmoothedClassifier(hf.Ensemble([small_net(), Turned(small_net(seed=2))]), SIGMA, compile=False)
    assert compiled.model.compiled
    assert cert.score.lower(0.1) == pytest.approx(plain.certify(X, n=500, seed=1).score.lower(0.1), abs=1e-3)


def test_weights_of_a_member_that_change_in_place_count_at_the_next_call() -> None:
    nets = members()
    smoothed = hf.SmoothedClassifier(hf.Ensemble(nets), SIGMA)
    smoothed.certify(X, n=200, seed=1)
    nets[0].load_state_dict(small_net(seed=9).state_dict())
    fresh = hf.SmoothedClassifier(hf.Ensemble([small_net(seed=9), *members()[1:]]), SIGMA)
    assert smoothed.certify(X, n=200, seed=1) == fresh.certify(X, n=200, seed=1)


def test_the_service_serves_one() -> None:
    net = hf.Ensemble(members())
    with running(small_served(net)) as service:
        answer = service.certify(X, "n=400&seed=1").json()
    expected = hf.SmoothedClassifier(net, SIGMA, inputs="images").certify(X, n=400, seed=1)
    assert hf.Certificate.from_dict(answer) == expected


def test_the_layers_of_a_network_are_no_ensemble() -> None:
    with pytest.raises(hf.InvalidArgument, match=r"a list of networks, such as .*, got one Sequential"):
        hf.Ensemble(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
