"""Laws that every noise keeps, and what is known of each in closed form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

import holdfast as hf
from distributions import DISTRIBUTIONS, NOISES, source
from holdfast.bounds.steps import merge_steps, step_bound
from holdfast.noise import as_noise, rounded_table, sigma_of
from methods import EXACT_CDF
from test_guarantees import consistent

Floats = NDArray[np.float64]
P = np.concatenate(([0.0], np.linspace(1e-3, 1 - 1e-3, 201), [1.0]))
noises = st.sampled_from(list(NOISES.values()))
probabilities = st.floats(0, 1)
distances = st.floats(0, 6)
"""In units of the noise's scale."""


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("r", [0.0, 0.01, 0.3, 1.0, 1.9, 2.5, 6.0])
def test_the_least_probability_is_increasing_and_convex_and_starts_at_nothing(noise: hf.Noise, r: float) -> None:
    g = noise.least_probability(P[1:-1], r * noise.scale)
    assert (np.diff(g) >= -1e-15).all()
    assert (np.diff(g, 2) >= -1e-14).all()
    whole = noise.least_probability(P, r * noise.scale)
    assert whole[0] == 0
    assert ((whole >= 0) & (whole <= 1)).all()


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_without_a_perturbation_nothing_is_lost(noise: hf.Noise) -> None:
    assert noise.least_probability(P, 0.0) == pytest.approx(P, abs=1e-14)


@given(noises, probabilities, distances, distances)
def test_a_longer_perturbation_never_leaves_more(noise: hf.Noise, p: float, one: float, other: float) -> None:
    near, far = sorted((one, other))
    assert noise.least_probability(p, far * noise.scale) <= noise.least_probability(p, near * noise.scale) + 1e-15


@given(noises, st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6), distances)
def test_the_slope_is_a_subgradient(noise: hf.Noise, p: float, q: float, r: float) -> None:
    radius = r * noise.scale
    tangent = noise.least_probability(q, radius) + noise.slope(q, radius) * (p - q)
    assert noise.least_probability(p, radius) >= tangent - 1e-12 * (1 + noise.slope(q, radius))


@given(noises, st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
def test_the_radius_is_where_the_least_probability_has_fallen_to_q(noise: hf.Noise, p: float, q: float) -> None:
    radius = noise.radius(p, q)
    if p <= q:
        assert radius == 0.0
    else:
        assert noise.least_probability(p, radius) == pytest.approx(q, abs=1e-9)


@given(noises, probabilities, distances, st.floats(1, 4))
def test_wider_noise_never_loses_more(noise: hf.Noise, p: float, r: float, wider: float) -> None:
    # Noise ``wider`` times as wide at a radius is this noise at a radius ``wider`` times as small.
    radius = r * noise.scale
    assert noise.least_probability(p, radius / wider) >= noise.least_probability(p, radius) - 1e-15


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("r", [0.0, 0.4, 1.3, 3.0])
def test_the_decay_of_fixed_events_is_the_least_probability_and_takes_arrays(noise: hf.Noise, r: float) -> None:
    radius = r * noise.scale
    assert np.array_equal(noise.decay(P)(radius), noise.least_probability(P, radius))
    assert np.array_equal(
        noise.least_probability(P[:, None], np.array([0.0, radius]))[:, 1], noise.least_probability(P, radius)
    )
    assert noise.slope(P[1:-1, None], np.array([0.0, radius])).shape == (len(P) - 2, 2)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_merging_steps_is_never_above_the_plain_sum(noise: hf.Noise) -> None:
    values = np.sort(expit(np.random.default_rng(1).normal(3, 2, 20_000)))
    samples = hf.Exceedances(values, np.arange(20_000, 0, -1), 20_000, (0.0, 1.0))
    p = hf.DKW().lower(samples.counts, samples.n, 0.001)
    merged = step_bound(samples, p, noise=noise, guaranteed=False)
    assert merge_steps(samples.widths, p)[0].size < 10_000
    for radius in noise.scale * np.array([0.0, 0.5, 1.0, 1.9, 3.0]):
        plain = float(np.dot(samples.widths, noise.least_probability(p, radius)))
        found = float(merged(np.array([radius]))[0])
        assert found <= plain + 1e-13
        assert found >= plain - 1e-4


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_bound_from_the_exact_distribution_is_never_above_the_worst_case(noise: hf.Noise, distribution: str) -> None:
    truth = DISTRIBUTIONS[distribution]
    edges = np.union1d(np.linspace(0, 1, 513), truth.atoms)
    # A staircase below the survival function: its value at the upper end of each interval, just beyond an atom there.
    survival = truth.survival(np.minimum(edges[1:] + 1e-12, 1.0)) * (edges[1:] < 1)
    at = hf.Exceedances(edges[1:], np.ones(len(edges) - 1, dtype=np.int64), 1, (0.0, 1.0))
    radii = noise.scale * np.array([0.0, 0.2, 0.7, 1.5, 2.5])
    found = step_bound(at, survival, noise=noise, guaranteed=True)(radii)
    assert (found <= truth.worst(noise, radii) + 1e-7).all()
    assert found == pytest.approx(truth.worst(noise, radii), abs=6e-3)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_noise_is_read_back_as_it_was_written(noise: hf.Noise) -> None:
    assert hf.Noise.from_dict(noise.to_dict()) == noise
    histogram = hf.ScoreSamples([0.2, 0.9], noise=noise).histogram(bins=8)
    assert hf.ScoreHistogram.from_dict(histogram.to_dict()) == histogram
    assert ("sigma" in histogram.to_dict()) == isinstance(noise, hf.Gaussian)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_drawn_numbers_follow_the_curve(noise: hf.Noise) -> None:
    """A half-space along one axis, at x and at a point moved along it: never less than the least probability."""
    step = noise.scale / 4_096
    z = step * rounded_table(noise, step).draw(np.random.Philox(2).random_raw(200_000)).astype(np.float64)
    assert abs(z.mean()) < 5 * z.std() / len(z) ** 0.5
    for r in (0.2, 0.7, 1.5):
        for quantile in (0.2, 0.5, 0.9, 0.99):
            t = np.quantile(z, quantile)
            moved = float((z + r * noise.scale <= t).mean())
            assert moved >= float(noise.least_probability(quantile, r * noise.scale)) - 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("r", [0.0, 0.6])
def test_a_false_statement_is_certified_at_most_alpha_of_the_time(noise: hf.Noise, r: float) -> None:
    alpha, repeats, rng = 0.1, 60, np.random.default_rng(5)
    wrong = tried = 0
    for distribution in DISTRIBUTIONS.values():
        truth = float(distribution.worst(noise, np.array([r * noise.scale]))[0]) + 1e-6
        if truth >= 1:
            continue
        for _ in range(repeats):
            tried += 1
            draw = source(distribution.sample(rng, (2_000,)))
            found = hf.decide(draw, at_least=truth, radius=r * noise.scale, noise=noise, alpha=alpha, n_max=2_000)
            wrong += found.certified
    assert consistent(wrong, tried, alpha), f"{wrong} of {tried}"


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_plainly_true_statement_is_certified_with_few_samples(noise: hf.Noise) -> None:
    rng, confident = np.random.default_rng(1), DISTRIBUTIONS["confident"]
    found = hf.decide(lambda n: confident.sample(rng, (n,)), at_least=0.5, radius=0.5 * noise.scale, noise=noise)
    assert found.certified
    assert found.samples <= 3_000
    samples = hf.ScoreSamples(confident.sample(rng, (20_000,)), noise=noise)
    radius = 0.5 * noise.scale
    band, aimed = (
        hf.bound(samples, alpha=1e-3, method=method).lower(radius) for method in (hf.CDF(), hf.Tangent(radius))
    )
    assert band < aimed < float(confident.worst(noise, np.array([radius]))[0]) + 1e-7


# Uniform noise, in closed form.


@given(st.integers(0, 40), st.floats(0.05, 5), st.floats(0, 1.2))
def test_a_half_space_under_uniform_noise_loses_exactly_its_share(k: int, h: float, r: float) -> None:
    # x_1 <= t has probability p at x, and p - R / 2h (or nothing) after a move by R along the first axis.
    p, radius = k / 40, r * 2 * h
    t = 2 * h * p - h
    moved = float(np.clip((t - radius + h) / (2 * h), 0, 1))
    noise = hf.Uniform(h)
    assert noise.least_probability(p, radius) == pytest.approx(moved, abs=1e-12)
    votes = hf.ScoreSamples(np.repeat([1.0, 0.0], [k, 40 - k]), noise=noise)
    curve = hf.bound(votes, alpha=0.5, method=EXACT_CDF, sides="both")
    assert curve.lower(radius) == pytest.approx(moved, abs=1e-12)
    assert curve.upper(radius) == pytest.approx(min(1.0, p + r), abs=1e-12)


def events(z: Floats, shift: Floats, h: float) -> tuple[float, ...]:
    """How often z is outside the box around the shift, in a half-space across it, and on the black squares of a board."""
    outside = (np.abs(z - shift) > h).any(axis=1)
    half_space = z @ shift <= 0.3 * h * np.abs(shift).sum()
    board = (np.floor(z[:, 0] * 7) + np.floor(z[:, -1] * 5)) % 2 == 0
    return float(outside.mean()), float(half_space.mean()), float(board.mean())


@pytest.mark.parametrize("dimension", [1, 2, 5, 40])
def test_boxes_that_overlap_keep_at_least_the_bound_for_l1_shifts(dimension: int) -> None:
    """By simulation: for any event, and any shift of l1 norm R, what is left is at least ``p - R / 2h``."""
    rng, h, n = np.random.default_rng(dimension), 0.5, 100_000
    noise = hf.Uniform(h)
    delta = h * noise.standard(rng, (n, dimension)).astype(np.float64)
    for r in (0.1, 0.5, 0.9):
        radius = 2 * h * r
        spread = rng.dirichlet(np.ones(dimension)) * rng.choice([-1, 1], dimension)
        along = np.eye(dimension)[0]
        for direction in (along, spread):
            shift = radius * direction
            assert np.abs(shift).sum() == pytest.approx(radius)
            overlap = float(np.prod(np.maximum(0, 1 - np.abs(shift) / (2 * h))))
            assert overlap >= noise.least_probability(1.0, radius) - 1e-12
            if direction is along:
                assert overlap == pytest.approx(1 - r), "along an axis the bound is reached"
            before, after = events(delta, shift, h), events(delta + shift, shift, h)
            for here, there in zip(before, after, strict=True):
                assert there >= noise.least_probability(here, radius) - 0.01


@pytest.mark.slow
def test_a_network_under_uniform_noise_is_certified_wrongly_at_most_alpha_of_the_time() -> None:
    """Nothing of the theory is used: averages at attacked points come from other noise, and plenty of it."""
    alpha, repeats, n, h = 0.05, 400, 150, 0.5
    noise, rng, weights = hf.Uniform(h), np.random.default_rng(7), np.array([6.0, -3.0, 1.0])

    def scores(z: Floats) -> Floats:
        return np.asarray(expit(1.5 + z @ weights))

    plenty = h * noise.standard(rng, (400_000, 3)).astype(np.float64)
    radii = np.array([0.0, 0.1, 0.3, 0.6])
    attacked = np.array([scores(plenty - np.array([radius, 0.0, 0.0])).mean() for radius in radii])
    wrong = 0
    for _ in range(repeats):
        drawn = scores(h * noise.standard(rng, (n, 3)).astype(np.float64))
        curve = hf.bound(hf.ScoreSamples(drawn, noise=noise), alpha=alpha)
        wrong += bool((curve.lower(radii) > attacked + 2e-3).any())
    assert consistent(wrong, repeats, alpha), f"{wrong} of {repeats}"


def test_the_label_radius_is_two_half_widths_times_the_lead() -> None:
    label = hf.LabelCertificate(970, 1_000, alpha=0.001, noise=hf.Uniform(0.5))
    assert label.radius == pytest.approx(label.probability - 0.5, rel=1e-9)
    assert label.radius <= label.probability - 0.5
    assert hf.LabelCertificate(500, 1_000, alpha=0.001, noise=hf.Uniform(0.5)).radius == 0.0


@pytest.mark.parametrize("radius", [0.999, 1.0, 1.5, 40.0])
def test_where_uniform_noise_leaves_nothing_nothing_is_certified(radius: float) -> None:
    ones, noise = np.ones(500), hf.Uniform(0.5)
    for method in (hf.CDF(), hf.Naive(), hf.Tangent(radius=radius)):
        assert hf.bound(hf.ScoreSamples(ones, noise=noise), alpha=0.01, method=method).lower(radius) == 0.0
    far = hf.decide(lambda n: np.ones(n), at_least=0.5, radius=radius, noise=noise)
    assert not far.certified
    assert far.samples == 0
    assert "beyond what samples can reach" in far.reason
    doubtful = hf.decide(lambda n: np.full(n, 0.2), at_least=0.01, radius=0.97, noise=noise)
    assert not doubtful.certified


def test_blocks_whose_guess_is_flat_do_not_spoil_the_others() -> None:
    # The first guesses come from zeros alone: their tangents are flat, and later blocks must still be played.
    values = np.concatenate((np.zeros(40), np.ones(960)))
    samples = hf.ScoreSamples(values, noise=hf.Uniform(0.5))
    assert hf.bound(samples, alpha=0.01, method=hf.Tangent(radius=0.3)).lower(0.3) > 0.5


# What is refused.


@dataclass(frozen=True)
class Nameless(hf.Uniform):
    """A noise that was defined in a test: found by its kind, and by nothing else."""

    kind = "nameless"


def test_a_noise_is_found_by_its_kind_once_it_is_defined() -> None:
    assert hf.Noise.from_dict(Nameless(0.3).to_dict()) == Nameless(0.3)
    assert Nameless(0.3) != hf.Uniform(0.3)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({"kind": "pink"}, "'pink' is not known here; expected one of gaussian, .*uniform"),
        ({"kind": "gaussian", "width": 1}, "gaussian noise does not have these parameters"),
        ({"kind": "uniform", "half_width": -1.0}, "half_width must be a positive number"),
        ({"kind": ["gaussian"]}, "a dictionary with its kind"),
        (0.25, "a dictionary with its kind"),
    ],
)
def test_a_noise_that_cannot_be_read_is_refused(written: Any, complaint: str) -> None:
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.Noise.from_dict(written)


def test_the_noise_is_given_once() -> None:
    assert as_noise(None, 0.25) == hf.Gaussian(0.25)
    for options in ({}, {"sigma": 0.25, "noise": hf.Gaussian(0.25)}):
        with pytest.raises(hf.InvalidArgument, match="and not both"):
            hf.ScoreSamples([0.5], **options)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match=r"such as Gaussian\(0.25\)"):
        hf.ScoreSamples([0.5], noise=0.25)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="has no sigma"):
        sigma_of(hf.Uniform(0.5))
    with pytest.raises(hf.InvalidArgument, match="merge only with equal"):
        _ = hf.ScoreSamples([0.5], sigma=0.5).histogram() + hf.ScoreSamples([0.5], noise=hf.Uniform(0.5)).histogram()


def test_a_method_for_gaussian_noise_is_refused_for_others_in_words() -> None:
    uniform = hf.ScoreSamples(np.ones(30), noise=hf.Uniform(0.5))
    for method in (hf.Tangents(), hf.BestOf((hf.CDF(), hf.Tangents()))):
        with pytest.raises(hf.InvalidArgument, match=r"holds for gaussian noise only, got Uniform.*; use CDF"):
            hf.bound(uniform, alpha=0.1, method=method)
    assert hf.bound(uniform, alpha=0.1, method=hf.BestOf((hf.CDF(), hf.Tangent(radius=0.1)))).lower(0.1) > 0
