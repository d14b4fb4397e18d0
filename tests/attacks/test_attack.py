"""Attacks stay in the ball and on the grid, and reach the worst case where it is known."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from holdfast.attacks.ball import Balls
from holdfast.noise import BYTE
from networks import Turned, images, small_net

SIGMA = 0.5


def model_and_input(dimension: int = 60) -> tuple[hf.ProbitModel, NDArray[np.float32]]:
    rng = np.random.default_rng(dimension)
    weights = rng.normal(size=dimension)
    weights *= 1.5 / np.linalg.norm(weights)
    x = (rng.integers(0, 1_024, dimension) / 1_024).astype(np.float32)
    return hf.ProbitModel(weights, 1.2 - float(x @ weights)), x


@pytest.mark.parametrize("radius", [0.25, 1.0])
def test_an_attack_with_gradients_reaches_the_probit_models_worst_case(radius: float) -> None:
    model, x = model_and_input()
    smoothed = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities")
    found = hf.attack(smoothed, x, radius, n=20_000, seed=1)
    truth = float(model.worst_case(x, SIGMA, radius))
    low, high = found.interval()
    assert found.target == 0
    assert found.distance == pytest.approx(radius, rel=1e-4)
    assert low <= truth + 0.002
    assert high >= truth
    assert found.mean() == pytest.approx(truth, abs=0.01)
    assert found.mean("margin") == pytest.approx(2 * truth - 1, abs=0.02)


def test_an_attack_by_scores_alone_comes_near_it() -> None:
    model, x = model_and_input()
    function = hf.CallableModel(lambda batch: model(torch.from_numpy(batch)).numpy())
    found = hf.attack(hf.SmoothedClassifier(function, SIGMA), x, 0.5, n=20_000, seed=1)
    clean, truth = model.worst_case(x, SIGMA, [0.0, 0.5])
    assert found.mean() < truth + 0.15 * (clean - truth)


def test_under_uniform_noise_the_number_that_matters_most_is_moved() -> None:
    model, x = model_and_input()
    smoothed = hf.SmoothedClassifier(model, noise=hf.Uniform(0.5), outputs="probabilities")
    found = hf.attack(smoothed, x, 0.4, n=1_000, seed=1)
    moved = np.flatnonzero(found.x != x)
    weights = model.weights.numpy()
    assert moved.tolist() == [int(np.abs(weights).argmax())]
    assert np.abs(found.x - x).sum() <= 0.4
    assert (found.x - x)[moved] * weights[moved] < 0


@pytest.mark.parametrize("noise", [hf.Gaussian(0.25), hf.Uniform(0.5)])
@pytest.mark.parametrize("radius", [0.0, 0.003, 0.11, 0.7])
def test_attacked_images_are_bytes_within_the_radius(noise: hf.Noise, radius: float) -> None:
    x = (np.rint(images(1)[0] * 255) / 255).astype(np.float32)
    smoothed = hf.SmoothedClassifier(small_net(), noise=noise)
    found = hf.attack(smoothed, x, radius, attack=hf.Attack(steps=3, copies=4), n=200, n0=10, seed=2)
    away = found.x.astype(np.float64) - x
    assert np.linalg.norm(away.ravel(), 2 if noise.norm == "l2" else 1) <= radius
    assert np.abs(found.x * 255 - np.rint(found.x * 255)).max() < 1e-4
    assert found.x.min() >= 0
    assert found.x.max() <= 1
    assert found.distance > radius - 2 * BYTE


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("step", [BYTE, 2.0**-6, 0.0])
def test_no_point_leaves_its_ball_and_little_of_the_radius_is_wasted(norm: str, step: float) -> None:
    rng = np.random.default_rng(3)
    radii = rng.uniform(0.0, 2.0, 40)
    centres = rng.integers(0, 64, (40, 300)) * (step or 0.01)
    balls = Balls(centres.astype(np.float32).astype(np.float64), radii, norm, step=step)
    points = balls.points(balls.farthest(rng.normal(size=centres.shape) ** 3))
    assert (balls.distances(points) <= radii).all()
    assert (balls.distances(points) >= radii - 2 * (step or 1e-5)).all()


def test_the_farthest_point_of_a_ball_in_a_box_uses_up_the_radius() -> None:
    rng = np.random.default_rng(4)
    centres = rng.choice([0.0, 0.1, 0.9], (20, 50))
    balls = Balls(centres, np.full(20, 0.8), "l2", (0.0, 1.0))
    directions = rng.normal(size=centres.shape)
    offsets = balls.farthest(directions)
    assert ((centres + offsets >= -1e-12) & (centres + offsets <= 1 + 1e-12)).all()
    assert np.linalg.norm(offsets, axis=1) == pytest.approx(0.8, abs=1e-3)
    # No point among many others goes farther.
    others = balls.farthest(directions + 0.3 * rng.normal(size=centres.shape))
    assert ((offsets * directions).sum(1) >= (others * directions).sum(1) - 1e-3).all()


def test_the_same_seed_finds_the_same_point() -> None:
    smoothed, x = hf.SmoothedClassifier(small_net(), 0.25), images(1)[0]
    first, again, other = (hf.attack(smoothed, x, 0.3, n=300, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.x, again.x)
    assert first.evidence == again.evidence
    assert not np.array_equal(first.x, other.x)


class Detached(Turned):
    """Answers, and no gradients."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Rounding(Turned):
    """A gradient that is zero everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward((16 * x).round() / 16)


@pytest.mark.parametrize("kind", [Detached, Rounding])
def test_a_module_without_a_useful_gradient_is_attacked_by_its_scores(kind: type[Turned]) -> None:
    x = images(1)[0]
    smoothed = hf.SmoothedClassifier(kind(small_net()), 0.25)
    clean, found = (hf.attack(smoothed, x, radius, n=4_000, seed=1) for radius in (0.0, 0.5))
    assert not found.gradients
    assert found.interval()[1] < clean.interval()[0]


def test_an_attack_leaves_the_module_as_it_was() -> None:
    net = small_net().train()
    hf.attack(hf.SmoothedClassifier(net, 0.25), images(1)[0], 0.3, n=200, seed=1)
    assert net.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())


class Straight(nn.Module):
    """Inputs outside [0, 1] are answered like others."""

    def forward(self, x: Tensor) -> Tensor:
        total = x.flatten(1).sum(1)
        return torch.stack((total, -total), 1)


def test_without_clipping_the_whole_ball_is_searched() -> None:
    smoothed, x = hf.SmoothedClassifier(Straight(), 0.25), np.zeros((1, 6, 6), dtype=np.float32)
    inside, whole = (
        hf.attack(smoothed, x, 0.5, target=0, attack=hf.Attack(clip=c), n=200, seed=1) for c in (True, False)
    )
    assert np.array_equal(inside.x, x)
    assert whole.x.max() < 0
    assert whole.distance == pytest.approx(0.5, abs=0.01)


class Valleys(nn.Module):
    """One number: the score falls on both sides, further above zero than below."""

    def forward(self, x: Tensor) -> Tensor:
        first = 2 - 4 * x[:, 0].relu() - 2 * (-x[:, 0]).relu()
        return torch.stack((first, torch.zeros_like(first)), 1)


def test_restarts_leave_a_shallow_valley_and_the_best_is_kept() -> None:
    smoothed, x = hf.SmoothedClassifier(Valleys(), 0.05), np.array([-0.2], dtype=np.float32)
    found = [hf.attack(smoothed, x, 1.0, attack=hf.Attack(restarts=k), n=200, seed=1).x[0] for k in (1, 6)]
    assert found == pytest.approx([-1.2, 0.8], abs=1e-4)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda smoothed, x: hf.attack(smoothed, x, -1.0), "radius must be"),
        (lambda smoothed, x: hf.attack(smoothed, x, 0.1, measure="mass-1"), 'measure must be "score" or "margin"'),
        (lambda smoothed, x: hf.attack(smoothed, x, 0.1, target=-1), "target must be"),
        (lambda smoothed, x: hf.attack(smoothed, x, 0.1, target=9), "target must be a class from 0 to 3, got 9"),
        (
            lambda smoothed, x: hf.attack(smoothed, x, 0.1, attack="hard"),  # type: ignore[arg-type]
            r"attack must be Attack\(steps=",
        ),
        (lambda *_: hf.Attack(steps=0), "steps must be a whole number"),
        (lambda *_: hf.Attack(clip="no"), "clip must be True or False, got 'no'"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    refused: Callable[[hf.SmoothedClassifier, NDArray[np.float32]], object], words: str
) -> None:
    with pytest.raises(hf.InvalidArgument, match=words):
        refused(hf.SmoothedClassifier(small_net(), 0.25), images(1)[0])
