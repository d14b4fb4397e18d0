"""The promise itself, simulated: a certificate is wrong at most alpha of the time, for the whole curve at once."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binomtest

import holdfast as hf
from distributions import DISTRIBUTIONS, NOISES, Discrete, Distribution, Floats
from methods import BANDS, METHODS, ORDERED

RADII = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
TINY = 1e-9
REPEATS = 1_200
"""Per distribution; with nine distributions, more than 10,000 certificates for each method, sketch and sides."""


def wrong_curves(
    method: hf.Method,
    distribution: Distribution,
    *,
    n: int,
    alpha: float,
    sides: str,
    sketch: bool,
    repeats: int,
    seed: int,
) -> int:
    """How many of ``repeats`` certificates under Gaussian noise are wrong anywhere on their curve."""
    truth = Truth(RADII, distribution.lowest(RADII), distribution.highest(RADII), TINY)
    rng = np.random.default_rng(seed)
    return sum(
        truth.contradicts(_curve(values, hf.Gaussian(1.0), method, alpha=alpha, sides=sides, sketch=sketch))
        for values in distribution.sample(rng, (repeats, n))
    )


def _curve(values: Floats, noise: hf.Noise, method: hf.Method, *, alpha: float, sides: str, sketch: bool) -> hf.Curve:
    samples = hf.ScoreSamples(values, noise=noise)
    scores: hf.Scores = samples.histogram(bins=256) if sketch else samples
    return hf.bound(scores, alpha=alpha, method=method, sides=sides)


@dataclass(frozen=True)
class Truth:
    """The least and the greatest average at some radii, known up to ``tolerance``."""

    radii: Floats
    lowest: Floats
    highest: Floats
    tolerance: float

    @classmethod
    def under(cls, noise: hf.Noise, distribution: Distribution) -> "Truth":
        radii = noise.scale * RADII
        return cls(radii, distribution.worst(noise, radii), distribution.best(noise, radii), 1e-7)

    def contradicts(self, curve: hf.Curve) -> bool:
        bad = bool((curve.lower(self.radii) > self.lowest + self.tolerance).any())
        if curve.sides == "both":
            bad = bad or bool((curve.upper(self.radii) < self.highest - self.tolerance).any())
        return bad


def consistent(wrong: int, repeats: int, alpha: float) -> bool:
    """Whether so many failures could have come from a failure probability of at most alpha."""
    return bool(binomtest(wrong, repeats, alpha, alternative="greater").pvalue > 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_the_whole_curve_is_wrong_at_most_alpha_of_the_time(method: str, distribution: str) -> None:
    alpha, truth = 0.05, DISTRIBUTIONS[distribution]
    for sides, sketch in (("lower", False), ("both", True)):
        wrong = wrong_curves(
            METHODS[method], truth, n=100, alpha=alpha, sides=sides, sketch=sketch, repeats=REPEATS, seed=7
        )
        assert consistent(wrong, REPEATS, alpha), f"{wrong} of {REPEATS} wrong, sides={sides}"


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [10, 1_000])
def test_the_guarantee_holds_at_a_small_alpha_and_other_sample_sizes(method: str, n: int) -> None:
    alpha, repeats = 0.001, 1_000
    wrong = sum(
        wrong_curves(
            METHODS[method], truth, n=n, alpha=alpha, sides="lower", sketch=False, repeats=repeats // 4, seed=n
        )
        for truth in DISTRIBUTIONS.values()
    )
    assert consistent(wrong, len(DISTRIBUTIONS) * (repeats // 4), alpha)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_numerical_worst_case_of_gaussian_noise_is_the_closed_form(distribution: str) -> None:
    known, found = DISTRIBUTIONS[distribution], Truth.under(hf.Gaussian(0.5), DISTRIBUTIONS[distribution])
    assert found.lowest == pytest.approx(known.lowest(RADII), abs=1e-6)
    assert found.highest == pytest.approx(known.highest(RADII), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("method", [*METHODS, "tangent"])
def test_the_whole_curve_is_wrong_at_most_alpha_of_the_time_under_every_noise(method: str, noise: str) -> None:
    alpha, repeats, under = 0.05, 150, NOISES[noise]
    chosen = METHODS.get(method) or hf.Tangent(radius=0.6 * under.scale)
    rng, wrong = np.random.default_rng(23), 0
    for distribution in DISTRIBUTIONS.values():
        truth = Truth.under(under, distribution)
        for values in distribution.sample(rng, (repeats, 100)):
            wrong += truth.contradicts(_curve(values, under, chosen, alpha=alpha, sides="both", sketch=False))
    assert consistent(wrong, repeats * len(DISTRIBUTIONS), alpha), f"{wrong} wrong"


@pytest.mark.parametrize("noise", NOISES)
def test_the_simulation_notices_a_noise_that_is_narrower_than_the_certificate_says(noise: str) -> None:
    said, distribution = NOISES[noise], DISTRIBUTIONS["zero or one"]
    # Half as wide, a perturbation counts twice.
    radii = said.scale * RADII
    truth = Truth(radii, distribution.worst(said, 2 * radii), distribution.best(said, 2 * radii), 1e-7)
    draws = distribution.sample(np.random.default_rng(1), (200, 100))
    curves = [_curve(values, said, hf.CDF(), alpha=0.05, sides="lower", sketch=False) for values in draws]
    wrong = sum(truth.contradicts(curve) for curve in curves)
    assert not consistent(wrong, 200, 0.05)


def test_the_simulation_notices_a_band_that_is_too_narrow() -> None:
    class TooNarrow(hf.DKW):
        def epsilon(self, n: int, alpha: float) -> float:
            return 0.4 * super().epsilon(n, alpha)

    wrong = wrong_curves(
        hf.CDF(band=TooNarrow()),
        DISTRIBUTIONS["zero or one"],
        n=100,
        alpha=0.05,
        sides="lower",
        sketch=False,
        repeats=800,
        seed=3,
    )
    assert not consistent(wrong, 800, 0.05)


def test_the_simulation_notices_a_mean_bound_that_is_an_estimate() -> None:
    wrong = wrong_curves(
        hf.Naive(mean=hf.EmpiricalMean()),
        DISTRIBUTIONS["zero or one"],
        n=100,
        alpha=0.05,
        sides="lower",
        sketch=False,
        repeats=300,
        seed=3,
    )
    assert not consistent(wrong, 300, 0.05)


@pytest.mark.slow
def test_the_label_is_wrong_at_most_alpha_of_the_time() -> None:
    alpha, n, repeats = 0.05, 60, 20_000
    rng = np.random.default_rng(11)
    for share in (0.5, 0.51, 0.7, 0.9, 0.99):
        votes = rng.binomial(n, share, repeats)
        bound = {int(k): hf.LabelCertificate(int(k), n, 1.0, alpha).probability for k in np.unique(votes)}
        wrong = int(sum(bound[int(k)] > share for k in votes))
        assert consistent(wrong, repeats, alpha)


@pytest.mark.parametrize("n", [10, 100, 1_000])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("band", BANDS)
def test_the_band_is_below_the_survival_function_everywhere_at_once(band: str, alpha: float, n: int) -> None:
    repeats = 20_000 if n < 1_000 else 6_000
    ordered = np.sort(np.random.default_rng(n).random((repeats, n)), axis=1)
    lower = BANDS[band].lower(np.arange(n, 0, -1), n, alpha)
    wrong = int((lower > 1 - ordered).any(axis=1).sum())
    assert consistent(wrong, repeats, alpha)
    # A band that never fails wastes samples: on a continuous distribution these are nearly exact.
    if alpha >= 0.05 and n >= 100:
        assert wrong > 0.6 * alpha * repeats


@pytest.mark.parametrize("band", BANDS)
def test_the_band_holds_at_atoms_where_many_samples_tie(band: str) -> None:
    n, alpha, repeats = 50, 0.05, 20_000
    survival = np.array([1.0, 0.9, 0.7, 0.4])
    draws = np.random.default_rng(1).multinomial(n, [0.1, 0.2, 0.3, 0.4], size=repeats)
    counts = np.cumsum(draws[:, ::-1], axis=1)[:, ::-1]
    lower = BANDS[band].lower(counts.ravel(), n, alpha).reshape(counts.shape)
    assert consistent(int((lower > survival).any(axis=1).sum()), repeats, alpha)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 100, 1_000, 10_000])
@pytest.mark.parametrize("alpha", [0.001, 0.05])
@pytest.mark.parametrize("method", [*METHODS, *ORDERED])
def test_rare_falls_and_rare_rises_do_not_break_the_guarantee(method: str, alpha: float, n: int) -> None:
    # The hardest cases for tails: about one sample in n, or a few, is far from all the others.
    repeats = {10: 150, 100: 100, 1_000: 60, 10_000: 12}[n] // (5 if method in ORDERED else 1)
    tried = wrong = 0
    for seed, rare in enumerate((0.5 / n, 1 / n, 4 / n)):
        for low, high, fall in ((0.0, 1.0, rare), (0.3, 0.9, rare), (0.0, 1.0, 1 - rare), (0.0, 0.6, rare)):
            truth = Discrete((low, high), (fall, 1 - fall))
            chosen = METHODS.get(method) or ORDERED[method]
            wrong += wrong_curves(
                chosen, truth, n=n, alpha=alpha, sides="both", sketch=False, repeats=max(2, repeats), seed=seed + n
            )
            tried += max(2, repeats)
    assert consistent(wrong, tried, alpha), f"{wrong} of {tried}"
