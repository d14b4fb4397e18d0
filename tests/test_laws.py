"""Laws of the bounds, as properties over arbitrary samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import holdfast as hf
from distributions import NOISES
from holdfast.validation import SMALLEST_SHARE
from methods import EXACT_CDF, EXACT_NAIVE, METHODS, ORDERED

Floats = NDArray[np.float64]
RADII = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 3.0])
scores = arrays(
    np.float64, st.integers(1, 80), elements=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
)
votes = arrays(np.float64, st.integers(1, 200), elements=st.sampled_from([0.0, 1.0]))
methods = st.sampled_from([*METHODS.values(), EXACT_CDF, EXACT_NAIVE])
certificates = st.sampled_from(list(METHODS.values()))
# Among equal-count thresholds (the "-20") ties bring a larger count to a threshold, and coarser bins bring ties.
nested = st.sampled_from([method for name, method in METHODS.items() if not name.endswith("-20")])


noises = st.sampled_from(list(NOISES.values()))
GAUSSIAN = hf.Gaussian(0.5)


def curve(
    values: Floats, method: hf.Method, noise: hf.Noise = GAUSSIAN, *, sides: str = "both", alpha: float = 0.05
) -> hf.Curve:
    return hf.bound(hf.ScoreSamples(values, noise=noise), alpha=alpha, method=method, sides=sides)


@given(scores, methods, noises)
def test_bounds_are_monotone_in_the_radius_and_stay_in_the_support(
    values: Floats, method: hf.Method, noise: hf.Noise
) -> None:
    found = curve(values, method, noise)
    lower, upper = found.lower(RADII), found.upper(RADII)
    assert (np.diff(lower) <= 1e-12).all()
    assert (np.diff(upper) >= -1e-12).all()
    assert lower.min() >= 0
    assert upper.max() <= 1


@given(scores, certificates, noises)
def test_lower_is_below_the_mean_and_upper_above_it(values: Floats, method: hf.Method, noise: hf.Noise) -> None:
    found = curve(values, method, noise)
    assert found.lower(0.0) <= values.mean() <= found.upper(0.0)


@given(scores, noises)
def test_the_cdf_bound_is_at_least_the_naive_bound_at_the_exact_distribution(values: Floats, noise: hf.Noise) -> None:
    cdf, naive = curve(values, EXACT_CDF, noise), curve(values, EXACT_NAIVE, noise)
    assert (cdf.lower(RADII) >= naive.lower(RADII) - 1e-12).all()
    assert (cdf.upper(RADII) <= naive.upper(RADII) + 1e-12).all()


@given(votes, noises)
def test_cdf_and_naive_bounds_are_equal_on_zero_one_scores(values: Floats, noise: hf.Noise) -> None:
    cdf, naive = curve(values, EXACT_CDF, noise), curve(values, EXACT_NAIVE, noise)
    assert cdf.lower(RADII) == pytest.approx(naive.lower(RADII), abs=1e-12)
    dkw, hoeffding = curve(values, hf.CDF(hf.DKW()), noise), curve(values, hf.Naive(hf.Hoeffding()), noise)
    assert dkw.lower(RADII) == pytest.approx(hoeffding.lower(RADII), abs=1e-9)
    assert dkw.upper(RADII) == pytest.approx(hoeffding.upper(RADII), abs=1e-9)


@given(scores, methods, noises)
def test_reflection_swaps_the_sides(values: Floats, method: hf.Method, noise: hf.Noise) -> None:
    straight = curve(values, method, noise)
    mirrored = hf.bound(hf.ScoreSamples(values, noise=noise).reflect(), alpha=0.05, method=method, sides="both")
    assert straight.upper(RADII) == pytest.approx(1 - mirrored.lower(RADII), abs=1e-9)
    assert straight.lower(RADII) == pytest.approx(1 - mirrored.upper(RADII), abs=1e-9)


@given(scores, methods, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_matter(values: Floats, method: hf.Method, random: object) -> None:
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert np.array_equal(curve(values, method).lower(RADII), curve(shuffled, method).lower(RADII))


@given(scores, methods, st.floats(-3, 3), st.floats(0.1, 5))
def test_shifting_and_scaling_the_support_shifts_and_scales_the_bound(
    values: Floats, method: hf.Method, shift: float, scale: float
) -> None:
    moved = hf.ScoreSamples(
        np.clip(shift + scale * values, shift, shift + scale), support=(shift, shift + scale), sigma=0.5
    )
    found = hf.bound(moved, alpha=0.05, method=method).lower(RADII)
    assert found == pytest.approx(shift + scale * curve(values, method, sides="lower").lower(RADII), abs=1e-8)


@given(scores, noises, st.floats(0.01, 0.99))
def test_larger_scores_never_lower_a_bound(values: Floats, noise: hf.Noise, step: float) -> None:
    for method in METHODS.values():
        raised = np.minimum(1.0, values + step * (1 - values))
        higher, lower = (curve(each, method, noise).lower(RADII) for each in (raised, values))
        assert (higher >= lower - 1e-11).all()


@given(scores, certificates)
def test_a_smaller_alpha_never_raises_a_bound(values: Floats, method: hf.Method) -> None:
    assert (curve(values, method, alpha=0.001).lower(RADII) <= curve(values, method, alpha=0.1).lower(RADII)).all()


@given(scores, certificates)
def test_asking_for_both_sides_costs_the_lower_one_something(values: Floats, method: hf.Method) -> None:
    assert (curve(values, method, sides="both").lower(RADII) <= curve(values, method, sides="lower").lower(RADII)).all()


@given(st.floats(0, 1), st.integers(1, 50))
def test_a_constant_score_never_decays_at_the_exact_distribution(value: float, n: int) -> None:
    found = curve(np.full(n, value), EXACT_CDF)
    assert found.lower(np.array([0.0, 1.0, 10.0, 1e3])) == pytest.approx(value, abs=1e-12)
    assert found.upper(np.array([0.0, 1.0, 10.0, 1e3])) == pytest.approx(value, abs=1e-12)
    assert np.isinf(found.radius(at_least=value * (1 - 1e-9)))


@given(scores, methods, noises, st.floats(0.01, 1.0))
def test_the_radius_is_the_largest_that_passes_and_is_rounded_down(
    values: Floats, method: hf.Method, noise: hf.Noise, c: float
) -> None:
    found = curve(values, method, noise)
    radius = found.radius(at_least=c)
    if found.lower(0.0) < c:
        assert radius == 0.0
    elif np.isfinite(radius):
        assert found.lower(radius) >= c
        assert found.lower(radius + 2e-9) < c
    below = found.radius(at_most=c)
    if found.upper(0.0) > c:
        assert below == 0.0
    elif np.isfinite(below):
        assert found.upper(below) <= c + 1e-15


@given(scores, methods, st.floats(0, 1))
def test_a_bound_holds_where_it_passes_and_a_radius_of_zero_is_told_apart(
    values: Floats, method: hf.Method, threshold: float
) -> None:
    found = curve(values, method)
    for radius in RADII.tolist():
        assert found.holds(at_least=threshold, radius=radius) == (found.lower(radius) >= threshold)
        assert found.holds(at_most=threshold, radius=radius) == (found.upper(radius) <= threshold)
    assert found.holds(at_least=found.lower(0.0))
    above = float(np.nextafter(found.lower(0.0), 2))
    assert found.radius(at_least=above) == 0.0
    assert not found.holds(at_least=above)
    assert found.holds(at_least=[0.0, 2.0]).tolist() == [True, False]


@given(scores, certificates)
def test_radii_and_thresholds_are_vectorised(values: Floats, method: hf.Method) -> None:
    found = curve(values, method)
    assert np.array_equal(found.lower(RADII.reshape(7, 1)), np.array([[found.lower(float(r))] for r in RADII]))
    thresholds = np.array([0.1, 0.5, 0.9])
    assert np.array_equal(found.radius(at_least=thresholds), [found.radius(at_least=float(c)) for c in thresholds])
    many = hf.bound_many([hf.ScoreSamples(values, sigma=0.5)] * 2, alpha=0.05, method=method, sides="both")
    assert many.lower(RADII).shape == (2, 7)
    assert np.array_equal(many.lower(RADII)[1], found.lower(RADII))
    assert np.array_equal(many.upper(RADII)[1], found.upper(RADII))
    assert np.array_equal(many.radius(at_least=thresholds)[0], found.radius(at_least=thresholds))


@given(scores, nested, noises)
def test_a_histogram_gives_nearly_the_samples_bound_and_never_a_better_one(
    values: Floats, method: hf.Method, noise: hf.Noise
) -> None:
    samples = hf.ScoreSamples(values, noise=noise)
    exact = hf.bound(samples, alpha=0.05, method=method, sides="both")
    sketch = hf.bound(samples.histogram(), alpha=0.05, method=method, sides="both")
    assert (sketch.lower(RADII) <= exact.lower(RADII) + 1e-11).all()
    assert (sketch.upper(RADII) >= exact.upper(RADII) - 1e-11).all()
    assert sketch.lower(RADII) == pytest.approx(exact.lower(RADII), abs=1.1e-4)
    assert sketch.upper(RADII) == pytest.approx(exact.upper(RADII), abs=1.1e-4)


@given(scores, nested, noises, st.sampled_from([2, 8, 64, 1024, 8192]))
def test_a_coarser_histogram_is_the_one_of_the_samples_and_only_loosens_bounds(
    values: Floats, method: hf.Method, noise: hf.Noise, bins: int
) -> None:
    samples = hf.ScoreSamples(values, noise=noise)
    fine, coarse = samples.histogram(), samples.histogram().coarser(bins)
    assert coarse == samples.histogram(bins)
    assert coarse == fine.coarser(2 * bins).coarser(bins)
    assert coarse.n == fine.n
    before, after = (hf.bound(each, alpha=0.05, method=method, sides="both") for each in (fine, coarse))
    assert (after.lower(RADII) <= before.lower(RADII) + 1e-11).all()
    assert (after.upper(RADII) >= before.upper(RADII) - 1e-11).all()


@given(scores, st.floats(-2, 2))
def test_margins_coarsen_like_scores(values: Floats, shift: float) -> None:
    margins = hf.ScoreSamples(np.clip(2 * values - 1 + shift, -1, 1), support=(-1.0, 1.0), sigma=0.5)
    assert margins.histogram().coarser(2048) == margins.histogram(2048)


@pytest.mark.parametrize("bins", [0, 1, 3, 1000, 16_385, 32_768])
def test_a_grid_that_does_not_nest_is_refused(bins: int) -> None:
    with pytest.raises(hf.InvalidArgument, match="bins"):
        hf.ScoreSamples(np.array([0.5]), sigma=0.5).histogram().coarser(bins)
    with pytest.raises(hf.InvalidArgument, match="a half, a quarter"):
        hf.ScoreSamples(np.array([0.5]), sigma=0.5).histogram(12).coarser(4)


@pytest.mark.parametrize("name", [*METHODS, *ORDERED])
@pytest.mark.parametrize("sides", ["lower", "both"])
def test_tiny_samples_at_any_alpha_give_a_bound_and_at_a_tiny_one_the_trivial_bound(name: str, sides: str) -> None:
    method = {**METHODS, **ORDERED}[name]
    for n in range(1, 11):
        for values in (np.ones(n), np.zeros(n), np.linspace(0.2, 0.9, n)):
            for alpha in (0.5, 1e-3, 1e-13, 1e-28, 1e-60, 1e-100, SMALLEST_SHARE):
                with np.errstate(divide="raise", over="raise", invalid="raise"):
                    found = curve(values, method, sides=sides, alpha=alpha)
                    lower = found.lower(RADII)
                    upper = found.upper(RADII) if sides == "both" else np.ones_like(lower)
                assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all(), (n, values, alpha)
                # n ones have probability alpha where a score is one with probability alpha^(1/n), and zero otherwise.
                assert lower[0] <= alpha ** (1 / n)
                assert found.radius(at_least=0.5) >= 0
