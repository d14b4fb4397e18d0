"""A probit classifier's worst case is known: the certificate stays below it, close to it, and an attack reaches it."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

import holdfast as hf

SIGMA = 0.5
RADII = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])


def model_and_input(dimension: int) -> tuple[hf.ProbitModel, NDArray[np.float32]]:
    rng = np.random.default_rng(dimension)
    weights = rng.normal(size=dimension)
    weights *= 1.5 / np.linalg.norm(weights)
    x = rng.random(dimension).astype(np.float32)
    bias = 1.2 - float(x @ weights)
    return hf.ProbitModel(weights, bias), x


@pytest.mark.parametrize("dimension", [2, 100, 3_072])
def test_the_certificate_is_below_the_worst_case_and_within_sampling_error_of_it(dimension: int) -> None:
    model, x = model_and_input(dimension)
    smoothed = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities")
    n = 20_000 if dimension < 1_000 else 10_000
    cert = smoothed.certify(x, n=n, alpha=1e-3, sides="both", seed=1)
    truth = model.worst_case(x, SIGMA, RADII)
    eps = hf.DKW().epsilon(n, cert.alpha_per_claim / 2)
    # The bound falls short of the truth by the band alone: at most what moving p by 2 eps does to the exact curve.
    loss = np.array([2 * eps * max(1.0, np.exp(3 * r / SIGMA - (r / SIGMA) ** 2 / 2)) for r in RADII])
    assert cert.predicted == 0
    assert (cert.score.lower(RADII) <= truth).all()
    assert (truth - cert.score.lower(RADII) <= loss).all()
    assert (cert.margin.lower(RADII) <= 2 * truth - 1).all()
    best = 1 - hf.ProbitModel(-model.weights.numpy(), -model.bias).worst_case(x, SIGMA, RADII)
    assert (cert.score.upper(RADII) >= best).all()


@pytest.mark.parametrize("dimension", [2, 100, 3_072])
def test_the_explicit_attack_reaches_the_worst_case(dimension: int) -> None:
    model, x = model_and_input(dimension)
    radius = 0.5
    attacked = model.attack(x, radius)
    assert np.linalg.norm(attacked - x) == pytest.approx(radius)
    # Average score at the attacked point, in closed form along the only direction that matters and by simulation.
    w = model.weights.numpy()
    rng = np.random.default_rng(3)
    along = rng.normal(scale=SIGMA * np.linalg.norm(w), size=400_000)
    simulated = ndtr(attacked @ w + model.bias + along).mean()
    assert simulated == pytest.approx(float(model.worst_case(x, SIGMA, radius)), abs=3e-3)
    smoothed = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities")
    lower = smoothed.certify(x, n=5_000, seed=4).score.lower(radius)
    assert lower <= simulated + 1e-3


def test_the_exact_distribution_bound_is_attained_so_the_theorem_is_tight() -> None:
    model, x = model_and_input(2)
    w = model.weights.numpy()
    # The exact distribution of the score, at a million equally likely quantiles.
    u = (np.arange(1_000_000) + 0.5) / 1_000_000
    from scipy.special import ndtri

    scores = ndtr(float(x.astype(np.float64) @ w) + model.bias + SIGMA * np.linalg.norm(w) * ndtri(u))
    curve = hf.bound(hf.ScoreSamples(scores, sigma=SIGMA), alpha=0.5, method=hf.CDF(hf.Empirical()))
    assert curve.lower(RADII) == pytest.approx(model.worst_case(x, SIGMA, RADII), abs=2e-5)


@pytest.mark.slow
def test_everything_on_a_certificate_is_true_at_once_at_least_one_minus_alpha_of_the_time() -> None:
    from scipy.stats import binomtest

    alpha, repeats = 0.2, 1_500
    model = hf.ProbitModel([1.0, -2.0], 0.4)
    x = np.array([0.3, 0.1], dtype=np.float32)
    norm = float(np.linalg.norm(model.weights.numpy()))
    here = float(x.astype(np.float64) @ model.weights.numpy()) + model.bias
    truth = model.worst_case(x, SIGMA, RADII)
    smoothed = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities", batch=4_096)
    certs = smoothed.certify_many(np.tile(x, (repeats, 1)), n=60, n0=20, alpha=alpha, seed=8)
    wrong = 0
    for cert in certs:
        if cert.predicted == 0:
            bad = bool((cert.score.lower(RADII) > truth).any()) or bool(
                (cert.margin.lower(RADII) > 2 * truth - 1).any()
            )
            bad = bad or cert.label_radius > here / norm
        else:
            flipped = hf.ProbitModel(-model.weights.numpy(), -model.bias).worst_case(x, SIGMA, RADII)
            bad = bool((cert.score.lower(RADII) > flipped).any()) or bool(
                (cert.margin.lower(RADII) > 2 * flipped - 1).any()
            )
            bad = bad or cert.label_radius > max(0.0, -here / norm)
        wrong += bad
    assert binomtest(wrong, repeats, alpha, alternative="greater").pvalue > 1e-4
    assert wrong > 0, "at alpha = 0.2 some certificates must fail, or the simulation sees nothing"
