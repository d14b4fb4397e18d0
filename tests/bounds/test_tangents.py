"""Tangent certificates: sound for one radius and for all, between the knots and beyond them."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import holdfast as hf
from distributions import DISTRIBUTIONS
from holdfast.bounds.tangent import joined
from holdfast.bounds.tangents import through_knots
from holdfast.runs.compact import compact_run
from holdfast.scores import RandomOrder
from methods import ORDERED
from test_guarantees import consistent, wrong_curves

Floats = NDArray[np.float64]
RADII = np.linspace(0.0, 5.0, 101)
scores = arrays(np.float64, st.integers(1, 80), elements=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])))
methods = st.sampled_from(list(ORDERED.values()))


@pytest.mark.slow
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("method", ORDERED)
def test_the_whole_curve_is_wrong_at_most_alpha_of_the_time(method: str, distribution: str) -> None:
    repeats = {"tangents": 120, "naive-star": 500}.get(method, 1_200)
    for sides in ("lower", "both"):
        wrong = wrong_curves(
            ORDERED[method],
            DISTRIBUTIONS[distribution],
            n=150,
            alpha=0.1,
            sides=sides,
            sketch=False,
            repeats=repeats,
            seed=5,
        )
        assert consistent(wrong, repeats, 0.1), f"{wrong} of {repeats} wrong, sides={sides}"


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["confident", "zero or one"])
@pytest.mark.parametrize("method", ORDERED)
def test_counts_in_a_random_order_are_wrong_at_most_alpha_of_the_time(method: str, distribution: str) -> None:
    repeats, truth, wrong = 400, DISTRIBUTIONS[distribution], 0
    lowest, highest = truth.lowest(RADII), truth.highest(RADII)
    for seed, values in enumerate(truth.sample(np.random.default_rng(9), (repeats, 150))):
        counts = hf.ScoreSamples(values, sigma=1.0).histogram(256).under(hf.Gaussian(1.0), RandomOrder(seed, 0))
        curve = hf.bound(counts, alpha=0.1, method=ORDERED[method], sides="both")
        wrong += bool((curve.lower(RADII) > lowest + 1e-9).any() or (curve.upper(RADII) < highest - 1e-9).any())
    assert consistent(wrong, repeats, 0.1), f"{wrong} of {repeats} wrong"


@given(scores, methods)
def test_bounds_are_monotone_and_stay_in_the_support(values: Floats, method: hf.Method) -> None:
    curve = hf.bound(hf.ScoreSamples(values, sigma=0.7), alpha=0.05, method=method, sides="both")
    lower, upper = curve.lower(RADII), curve.upper(RADII)
    assert (np.diff(lower) <= 1e-12).all()
    assert (np.diff(upper) >= -1e-12).all()
    assert lower.min() >= 0
    assert upper.max() <= 1
    assert (lower <= upper).all()


@given(scores, methods)
def test_reflection_swaps_the_sides(values: Floats, method: hf.Method) -> None:
    samples = hf.ScoreSamples(values, sigma=0.7)
    straight = hf.bound(samples, alpha=0.05, method=method, sides="both")
    mirrored = hf.bound(samples.reflect(), alpha=0.05, method=method, sides="both")
    assert straight.upper(RADII) == pytest.approx(1 - mirrored.lower(RADII), abs=1e-7)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("spacing", [0.125, 0.5, 2.0])
def test_a_curve_through_exact_knots_is_never_above_the_truth(name: str, spacing: float) -> None:
    knots = np.arange(0.0, 4.01, spacing)
    truth = DISTRIBUTIONS[name]
    side = partial(through_knots, hf.Gaussian(1.0), (0.0, 1.0), knots, truth.lowest(knots))
    assert (side(RADII) <= truth.lowest(RADII) + 1e-12).all()
    assert side(knots) == pytest.approx(truth.lowest(knots), abs=1e-11)
    near = RADII[RADII <= 4.0]
    sag = 0.2419707 * spacing**2 / 8
    steep = np.abs(np.diff(truth.lowest(RADII))).max() / 0.05
    assert (truth.lowest(near) - side(near) <= 2 * sag + steep * 1e-9 + 1e-9).all()


def test_one_radius_is_certified_tighter_than_the_band_does() -> None:
    values = 1 / (1 + np.exp(-np.random.default_rng(1).normal(3, 2, 40_000)))
    samples = hf.ScoreSamples(values, sigma=1.0)
    for radius in (1.0, 2.0):
        band = hf.bound(samples, alpha=1e-3).lower(radius)
        whole = hf.bound(samples, alpha=1e-3, method=hf.Tangents()).lower(radius)
        aimed = hf.bound(samples, alpha=1e-3, method=hf.Tangent(radius)).lower(radius)
        assert band < whole < aimed


@pytest.mark.parametrize("value", [0.0, 0.3])
def test_samples_at_the_bottom_are_not_mistaken_for_a_rise_from_there(value: float) -> None:
    values = np.where(np.random.default_rng(2).random(10_000) < 0.8, 1.0, value)
    samples, radii = hf.ScoreSamples(values, sigma=1.0), np.array([0.0, 0.5, 1.0, 2.0])
    band = hf.bound(samples, alpha=1e-3).lower(radii)
    assert (hf.bound(samples, alpha=1e-3, method=hf.Tangents()).lower(radii) > band - 0.005).all()


def test_a_targeted_curve_is_flat_before_its_radius_and_naive_after_it() -> None:
    samples = hf.ScoreSamples(np.random.default_rng(1).random(2_000), sigma=0.5)
    curve = hf.bound(samples, alpha=0.01, method=hf.Tangent(0.5))
    aimed = curve.lower(0.5)
    assert curve.lower(0.1) == aimed
    assert curve.lower(1.0) == pytest.approx(float(ndtr(ndtri(aimed) - 1.0)), abs=1e-9)


def test_blocks_join_to_the_whole_sample() -> None:
    values = np.random.default_rng(0).integers(0, 9, 50) / 8
    samples = hf.ScoreSamples(values, sigma=1.0)
    together = joined([block.survival_lower() for block in samples.blocks([10, 15, 25])])
    assert together.mean == pytest.approx(values.mean(), abs=1e-12)
    for s in np.unique(values):
        first = int(np.searchsorted(together.thresholds, s))
        assert together.counts[first] == (values >= s).sum()


def test_counts_without_order_and_impossible_radii_are_refused() -> None:
    histogram = hf.ScoreSamples(np.ones(10), sigma=1.0).histogram()
    with pytest.raises(hf.InvalidArgument, match="forgotten in which order"):
        hf.bound(histogram, alpha=0.1, method=hf.Tangents())
    with pytest.raises(hf.InvalidArgument, match="radius must be"):
        hf.Tangent(radius=-1.0)


def test_names_are_read_back_as_the_same_method() -> None:
    from holdfast.bounds.named import method_named

    for method in (
        hf.Tangents(),
        hf.Tangent(1e-05),
        hf.Tangent(0.2),
        hf.Tangent(1e16),
        hf.CDF(),
        hf.Naive(),
        hf.BestOf((hf.BestOf((hf.CDF(), hf.Naive())), hf.Tangent(1e16))),
    ):
        assert method_named(method.name) == method


def test_a_radius_beyond_all_reach_certifies_nothing() -> None:
    samples = hf.ScoreSamples(np.ones(500), sigma=1.0)
    for radius in (38.0, 1e160):
        assert hf.bound(samples, alpha=0.01, method=hf.Tangent(radius)).lower(radius) == 0.0


def test_a_stored_run_certifies_with_tangents_what_its_certificates_do(tmp_path: Path) -> None:
    from networks import images, small_net

    smoothed, xs, radii = hf.SmoothedClassifier(small_net(), 0.2), images(3), np.array([0.0, 0.1, 0.3])
    own = hf.Settings(400, method=hf.Tangents())
    run = hf.certify_run(smoothed, xs, [0, 1, 0], out=tmp_path / "run", settings=own, seed=5)
    alone = smoothed.certify(xs[1], n=400, method=hf.Tangents(), seed=5, index=1)
    expected = alone.score.lower(radii)
    assert run.lower("score", "tangents", radii)[1] == pytest.approx(expected, abs=0)
    assert next(iter(run.some(np.array([False, True, False])))).certificate.score.lower(radii) == pytest.approx(
        expected
    )
    assert run.verify().ok
    plain = hf.certify_run(smoothed, xs, [0, 1, 0], out=tmp_path / "plain", settings=hf.Settings(400), seed=5)
    assert plain.lower("score", "tangents", radii)[1] == pytest.approx(expected, abs=0)
    small = compact_run(plain, tmp_path / "small", bins=512)
    assert small.lower("score", "tangents", radii)[1] == pytest.approx(expected, abs=0.02)
