"""The paper's formulas, written out plainly, against the implementation."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import holdfast as hf
from holdfast.bounds.steps import merge_steps, step_bound

Floats = NDArray[np.float64]
SIGMA, ALPHA = 0.25, 0.001
RADII = np.array([0.0, 0.1, 0.25, 0.5, 0.75])


def shifted(p: float, radius: float) -> float:
    """Phi_sigma(Phi_sigma^-1(p) - R), as the paper writes it."""
    return float(norm.cdf(norm.ppf(p, scale=SIGMA) - radius, scale=SIGMA))


def theorem_1(values: Floats, radius: float, a: float, b: float) -> tuple[float, float]:
    width = (b - a) * np.sqrt(np.log(1 / ALPHA) / (2 * len(values)))
    low = max(0.0, (values.mean() - width - a) / (b - a))
    high = min(1.0, (values.mean() + width - a) / (b - a))
    lower, upper = shifted(low, radius), shifted(high, -radius)
    return b * lower + a * (1 - lower), b * upper + a * (1 - upper)


def theorem_2(values: Floats, s: Floats, radius: float, a: float, b: float) -> tuple[float, float]:
    eps = np.sqrt(np.log(1 / ALPHA) / (2 * len(values)))
    share = np.array([(values >= each).mean() for each in s])
    low, high = np.maximum(0, share - eps), np.minimum(1, share + eps)
    lower = a + (s[0] - a) * shifted(low[0], radius)
    lower += sum((s[j] - s[j - 1]) * shifted(low[j], radius) for j in range(1, len(s)))
    upper = s[0] + (b - s[-1]) * shifted(high[-1], -radius)
    upper += sum((s[j + 1] - s[j]) * shifted(high[j], -radius) for j in range(len(s) - 1))
    return float(lower), float(upper)


@pytest.fixture
def margins() -> Floats:
    return np.tanh(np.random.default_rng(5).normal(0.8, 0.7, 400))


def bounds(values: Floats, method: hf.Method) -> hf.Curve:
    # Each side at the full alpha, as the formulas above: both sides together then hold at 2 alpha.
    return hf.bound(
        hf.ScoreSamples(values, support=(-1.0, 1.0), sigma=SIGMA), alpha=2 * ALPHA, method=method, sides="both"
    )


def test_theorem_1_with_hoeffding(margins: Floats) -> None:
    curve = bounds(margins, hf.Naive(mean=hf.Hoeffding()))
    for radius in RADII:
        lower, upper = theorem_1(margins, float(radius), -1.0, 1.0)
        assert curve.lower(float(radius)) == pytest.approx(lower, abs=1e-10)
        assert curve.upper(float(radius)) == pytest.approx(upper, abs=1e-10)


def test_theorem_2_at_every_order_statistic(margins: Floats) -> None:
    curve = bounds(margins, hf.CDF(band=hf.DKW()))
    s = np.sort(margins)
    for radius in RADII:
        lower, upper = theorem_2(margins, s, float(radius), -1.0, 1.0)
        assert curve.lower(float(radius)) == pytest.approx(lower, abs=1e-10)
        # Between order statistics the exact count beyond s_j is one less than at s_j: never above the paper's sum.
        assert upper - 2e-2 < curve.upper(float(radius)) <= upper + 1e-10


def test_theorem_2_at_the_papers_equal_count_thresholds(margins: Floats) -> None:
    curve = bounds(margins, hf.CDF(band=hf.DKW(), thresholds=40))
    s = np.sort(margins)[np.arange(40) * len(margins) // 40]
    for radius in RADII:
        assert curve.lower(float(radius)) == pytest.approx(
            theorem_2(margins, s, float(radius), -1.0, 1.0)[0], abs=1e-10
        )


def test_equal_count_thresholds_on_ties_are_the_values_at_those_ranks() -> None:
    values = np.array([0.1] * 5 + [0.4] * 3 + [0.9] * 2)
    for form in (hf.ScoreSamples(values, sigma=1.0), hf.ScoreSamples(values, sigma=1.0).histogram()):
        found = hf.bound(form, alpha=0.5, method=hf.CDF(hf.Empirical(), thresholds=2)).lower(0.0)
        # Ranks 1 and 6: thresholds 0.1 (all ten reach it) and 0.4 (five do).
        assert found == pytest.approx(0.1 + 0.3 * 0.5, abs=1e-4)


def test_more_thresholds_never_lower_the_bound(margins: Floats) -> None:
    coarse = bounds(margins, hf.CDF(hf.DKW(), thresholds=10)).lower(RADII)
    fine = bounds(margins, hf.CDF(hf.DKW(), thresholds=80)).lower(RADII)
    every = bounds(margins, hf.CDF(hf.DKW())).lower(RADII)
    assert (coarse <= fine + 1e-12).all()
    assert (fine <= every + 1e-12).all()


def test_the_neyman_pearson_curve_is_convex_and_its_own_inverse_undone() -> None:
    p = np.linspace(0.001, 0.999, 999)
    for r in (0.3, 1.0, 2.5):
        g = hf.Gaussian(1.0).least_probability(p, r)
        assert (np.diff(g, 2) >= -1e-15).all()
        assert hf.Gaussian(1.0).least_probability(g, -r) == pytest.approx(p, abs=1e-10)


def test_one_sided_dkw_is_narrower_than_two_sided_by_the_known_factor() -> None:
    values = np.random.default_rng(0).random(1_000)
    one = hf.bound(hf.ScoreSamples(values, sigma=1.0), alpha=0.01)
    two = hf.bound(hf.ScoreSamples(values, sigma=1.0), alpha=0.01, sides="both")
    one_eps, two_eps = hf.DKW().epsilon(1_000, 0.01), np.sqrt(np.log(2 / 0.01) / 2_000)
    all_of_them = np.array([1_000])
    assert hf.DKW().lower(all_of_them, 1_000, 0.01, "both")[0] == pytest.approx(1 - two_eps)
    assert hf.DKW().lower(all_of_them, 1_000, 0.01)[0] == pytest.approx(1 - one_eps)
    assert one_eps < two_eps
    assert one.lower(0.0) > two.lower(0.0)


def test_merging_steps_is_never_above_the_plain_sum_and_hardly_below() -> None:
    rng = np.random.default_rng(1)
    for mean, sd in ((1, 1), (3, 2), (6, 2), (-4, 3)):
        values = np.sort(1 / (1 + np.exp(-rng.normal(mean, sd, 100_000))))
        samples = hf.Exceedances(values, np.arange(100_000, 0, -1), 100_000, (0.0, 1.0))
        p = hf.DKW().lower(samples.counts, samples.n, ALPHA)
        merged = step_bound(samples, p, noise=hf.Gaussian(1.0), guaranteed=False)
        assert merge_steps(samples.widths, p)[0].size < 5_000
        for r in (0.0, 0.5, 1.0, 2.0, 3.0):
            plain = float(np.dot(samples.widths, ndtr(ndtri(p) - r)))
            found = float(merged(np.array([r]))[0])
            assert found <= plain + 1e-13
            assert found >= plain * (1 - 5e-6)


def test_certain_steps_survive_merging() -> None:
    values = np.linspace(0.5, 0.6, 10_000)
    lower = hf.bound(hf.ScoreSamples(values, sigma=1.0), alpha=0.5, method=hf.CDF(hf.Empirical())).lower(100.0)
    assert lower == pytest.approx(0.5, abs=1e-12)


def test_the_dkw_ceiling_is_where_the_mathematics_puts_it() -> None:
    n = 100_000
    curve = hf.bound(hf.ScoreSamples(np.ones(n), sigma=1.0), alpha=ALPHA, method=hf.CDF(hf.DKW()))
    ceiling = ndtr(ndtri(1 - hf.DKW().epsilon(n, ALPHA)) - RADII)
    assert curve.lower(RADII) == pytest.approx(ceiling, abs=1e-9)
    assert curve.radius(at_least=0.5) == pytest.approx(2.52, abs=0.005)


def test_the_tail_sensitive_band_has_a_far_higher_ceiling() -> None:
    curve = hf.bound(hf.ScoreSamples(np.ones(100_000), sigma=1.0), alpha=ALPHA)
    assert curve.radius(at_least=0.5) > 3.6


def test_the_best_of_two_is_each_at_half_of_alpha() -> None:
    values = np.random.default_rng(3).beta(8, 2, 3_000)
    samples = hf.ScoreSamples(values, sigma=SIGMA)
    first, second = hf.CDF(hf.DKW()), hf.Naive(hf.Betting())
    both = hf.bound(samples, alpha=ALPHA, method=hf.BestOf((first, second)), sides="both")
    halves = [hf.bound(samples, alpha=ALPHA / 2, method=method, sides="both") for method in (first, second)]
    assert np.array_equal(both.lower(RADII), np.maximum(*(curve.lower(RADII) for curve in halves)))
    assert np.array_equal(both.upper(RADII), np.minimum(*(curve.upper(RADII) for curve in halves)))
    with pytest.raises(hf.InvalidArgument, match="two or more methods"):
        hf.BestOf((first,))
    with pytest.raises(
        hf.InvalidArgument, match=r"got Empirical\(\); a band is a part of one: CDF\(band=Empirical\(\)\)"
    ):
        hf.BestOf((first, hf.Empirical()))  # type: ignore[arg-type]
