"""What training minimises: each loss is its formula, the certified bound is Theorem 2's, and options go where they belong."""

import math
import re

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

import holdfast as hf
from holdfast.cli.objectives import objective_named
from holdfast.errors import InvalidArgument
from holdfast.train.loop import train
from holdfast.train.objectives import Certified, Consistency, Objective, Plain, SmoothAdv
from holdfast.train.objectives.certified import bound_weights
from holdfast.train.recipe import Epoch, Recipe
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.labelled import LabelledInputs

NOTHING: dict[str, float | str | None] = dict.fromkeys(
    ("copies", "consistency", "sharpness", "radius", "steps", "score", "law")
)


def logits_of(copies: int, images: int = 5, classes: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(copies, images, classes, generator=generator, dtype=torch.float64)


def test_plain_and_consistency_are_their_formulas() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 3.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    p = logits.softmax(1).reshape(2, 2, 3).numpy()
    entropy_of_labels = -np.mean([math.log(p[copy, image, image]) for copy in range(2) for image in range(2)])
    average = p.mean(0)
    divergence = np.mean([(average * np.log(average / p[copy])).sum(1) for copy in range(2)])
    entropy = -np.mean((average * np.log(average)).sum(1))
    both = logits.reshape(2, 2, 3)
    found = Consistency(2, consistency=3.0, sharpness=0.5).loss(both, labels, 0.25)
    assert float(found) == pytest.approx(entropy_of_labels + 3.0 * divergence + 0.5 * entropy, rel=1e-6)
    assert float(Plain(2).loss(both, labels, 0.25)) == pytest.approx(entropy_of_labels, rel=1e-6)
    one = Plain().loss(both[:1], labels, 0.25)
    assert float(one) == pytest.approx(-np.mean([math.log(p[0, k, k]) for k in range(2)]), rel=1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("copies", [2, 4, 33])
def test_the_weights_give_theorem_2_at_the_empirical_distribution_on_both_sides(copies: int, ratio: float) -> None:
    scores = np.random.default_rng(copies).random(copies)
    curve = hf.bound(hf.ScoreSamples(scores, sigma=0.5), alpha=0.5, method=hf.CDF(hf.Empirical()), sides="both")
    weights, ordered = bound_weights(copies, ratio), np.sort(scores)[::-1]
    assert weights @ ordered == pytest.approx(curve.lower(0.5 * ratio), abs=1e-6)
    assert weights[::-1] @ ordered == pytest.approx(curve.upper(0.5 * ratio), abs=1e-6)
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights) >= -1e-12).all()  # the smallest score comes last and weighs most


def test_the_empirical_loss_is_the_score_of_the_bounds_whatever_the_order_of_the_copies() -> None:
    logits, labels, sigma = logits_of(6), torch.tensor([0, 1, 2, 0, 1]), 0.25
    p = logits.softmax(2).numpy()
    brier, log = [], []
    for image, label in enumerate(labels.tolist()):
        curves = [
            hf.bound(
                hf.ScoreSamples(p[:, image, k], sigma=sigma), alpha=0.5, method=hf.CDF(hf.Empirical()), sides="both"
            )
            for k in range(3)
        ]
        low = curves[label].lower(0.3)
        brier.append((1 - low) ** 2 + sum(curves[k].upper(0.3) ** 2 for k in range(3) if k != label))
        log.append(-math.log(low))
    shuffled = logits[torch.tensor([3, 0, 5, 1, 4, 2])]
    for copies in (logits, shuffled):
        assert float(Certified(6, 0.3, "brier", "empirical").loss(copies, labels, sigma)) == pytest.approx(
            np.mean(brier), abs=1e-5
        )
        assert float(Certified(6, 0.3, "log", "empirical").loss(copies, labels, sigma)) == pytest.approx(
            np.mean(log), abs=1e-4
        )


def test_at_radius_zero_the_empirical_loss_is_that_of_the_average() -> None:
    logits, labels = logits_of(4), torch.tensor([0, 1, 2, 0, 1])
    average = logits.softmax(2).mean(0)
    brier = (average - torch.nn.functional.one_hot(labels, 3)).square().sum(1).mean()
    log = -average[torch.arange(5), labels].log().mean()
    assert float(Certified(4, 0.0, "brier", "empirical").loss(logits, labels, 0.25)) == pytest.approx(float(brier))
    assert float(Certified(4, 0.0, "log", "empirical").loss(logits, labels, 0.25)) == pytest.approx(float(log))


@pytest.mark.parametrize(("mean", "sd", "ratio"), [(3.0, 1.0, 1.0), (1.0, 2.0, 2.0), (-1.0, 0.5, 3.0), (4.0, 3.0, 0.5)])
def test_the_normal_loss_is_the_score_of_theorem_2_for_normal_log_odds(mean: float, sd: float, ratio: float) -> None:
    odds = torch.from_numpy(mean + sd * norm.ppf((np.arange(20_000) + 0.5) / 20_000))
    logits = torch.stack([odds, torch.zeros_like(odds)], 1)[:, None]
    scores = [hf.ScoreSamples(values, sigma=0.5) for values in logits.softmax(2)[:, 0].T.numpy()]
    curves = [hf.bound(each, alpha=0.5, method=hf.CDF(hf.Empirical()), sides="both") for each in scores]
    low, high = curves[0].lower(0.5 * ratio), curves[1].upper(0.5 * ratio)
    log, brier = (
        float(Certified(20_000, 0.5 * ratio, score).loss(logits, torch.tensor([0]), 0.5)) for score in ("log", "brier")
    )
    assert math.exp(-log) == pytest.approx(low, abs=0.02)
    assert brier == pytest.approx((1 - low) ** 2 + high**2, abs=0.05)
    assert low == pytest.approx(1 - high, abs=1e-4)


@pytest.mark.parametrize("law", ["normal", "empirical"])
@pytest.mark.parametrize("score", ["brier", "log"])
@pytest.mark.parametrize("radius", [0.25, 20.0])
def test_the_certified_loss_has_the_gradient_that_differences_show(law: str, score: str, radius: float) -> None:
    labels = torch.tensor([0, 1, 2, 0, 1])
    objective = Certified(4, radius, score, law)
    logits = logits_of(4).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda x: objective.loss(x, labels, 0.25), (logits,))


def test_sharpening_a_wrong_answer_costs_more() -> None:
    logits, wrong = torch.zeros(4, 1, 2), torch.tensor([1])
    logits[..., 0] = 1.0
    for objective in (Certified(4, 0.25, score, law) for score in ("brier", "log") for law in ("normal", "empirical")):
        assert objective.loss(3 * logits, wrong, 0.25) > objective.loss(logits, wrong, 0.25)


def test_smoothadv_moves_images_uphill_as_far_as_it_may_and_no_further() -> None:
    torch.manual_seed(0)
    direction = torch.randn(2, 1, 4, 4)
    images, labels = torch.rand(3, 1, 4, 4), torch.tensor([0, 1, 0])
    noise = 0.1 * torch.randn(2, 3, 1, 4, 4)

    def predict(noisy: Tensor) -> Tensor:
        return torch.einsum("nchw,kchw->nk", noisy, direction).reshape(2, 3, 2)

    moved = SmoothAdv(2, radius=0.5, steps=3).perturbed(predict, images, noise, labels) - images
    away = direction[0] - direction[1]
    away = away / away.norm()
    signs = torch.tensor([-1.0, 1.0, -1.0])
    # Of a linear network the worst perturbation is known: along the difference of the rows, away from the label.
    assert torch.allclose(moved, 0.5 * signs[:, None, None, None] * away, atol=1e-5)
    assert torch.equal(Plain(2).perturbed(predict, images, noise, labels), images)


@pytest.mark.parametrize("objective", [SmoothAdv(), Certified(), Certified(score="brier"), Certified(law="normal")])
def test_a_network_learns_by_every_objective(objective: Objective) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 96)
    pixels = (rng.random((96, 1, 8, 8)) * 60 + 160 * labels[:, None, None, None]).astype(np.uint8)
    data = LabelledInputs("bright", pixels, labels, np.arange(96))
    epochs: list[Epoch] = []
    recipe = Recipe(0.1, 6, 32, 0.01, objective=objective)
    train(Architecture("small-cnn", 1, 8, 2), data, recipe, device=torch.device("cpu"), on_epoch=epochs.append)
    assert epochs[-1].accuracy > 0.9


def test_an_attack_leaves_the_averages_of_batch_normalisation_alone() -> None:
    rng = np.random.default_rng(0)
    data = LabelledInputs("noise", rng.integers(0, 255, (8, 3, 8, 8)).astype(np.uint8), np.arange(8) % 2, np.arange(8))
    nets = [
        train(
            Architecture("resnet20", 3, 8, 2),
            data,
            Recipe(0.25, 1, 8, objective=SmoothAdv(2, radius=0.0, steps=steps)),
            device=torch.device("cpu"),
        ).state_dict()
        for steps in (1, 3)
    ]
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])


def test_options_without_an_objective_mean_what_they_meant() -> None:
    assert objective_named(None, NOTHING) == Plain(1)
    assert objective_named(None, {**NOTHING, "copies": 3, "consistency": 0.0}) == Plain(3)
    assert objective_named(None, {**NOTHING, "sharpness": 0.5}) == Consistency(1, 0.0, 0.5)
    given = {**NOTHING, "copies": 2, "consistency": 20.0, "sharpness": 0.5}
    assert objective_named(None, given) == Consistency(2, 20.0, 0.5)
    assert objective_named("consistency", NOTHING) == Consistency(2, 20.0, 0.5)
    assert objective_named("certified", {**NOTHING, "radius": 0.75}) == Certified(4, 0.75, "log", "empirical")
    assert objective_named("smoothadv", {**NOTHING, "steps": 4}) == SmoothAdv(2, 0.25, 4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("plain", {"sharpness": 0.5}, "--sharpness is no option of the objective plain.* --objective consistency"),
        (None, {"radius": 0.5}, "--radius is no option.*--objective smoothadv or certified"),
        ("certified", {"consistency": 1.0}, "--consistency is no option of the objective certified"),
        ("magic", {}, "--objective must be one of plain, consistency, smoothadv, certified, got 'magic'"),
        (None, {"consistency": 1.0}, "needs two copies"),
        (None, {"sharpness": -1.0}, "sharpness must be one finite number, at least 0"),
        ("certified", {"copies": 1}, "needs two copies or more, got 1"),
        ("certified", {"score": "accuracy"}, "score must be one of log, brier"),
        ("certified", {"law": "uniform"}, "law must be one of empirical, normal, got 'uniform'"),
        ("smoothadv", {"steps": 0}, "steps"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    name: str | None, options: dict[str, float | str | None], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=re.compile(message)):
        objective_named(name, {**NOTHING, **options})
