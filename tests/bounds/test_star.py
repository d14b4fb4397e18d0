"""STaR bets: sound for means and tangents, tight, and never credited with more than they won."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.special import expit

import holdfast as hf
from distributions import DISTRIBUTIONS
from holdfast.means.rounds import BettingRound, Payoff, largest_refuted
from holdfast.means.star import StarGame, block_sizes
from test_guarantees import consistent, wrong_curves

Floats = NDArray[np.float64]
SKEWED = {"rare falls": (0.99, 0.0, 1.0), "rare rises": (0.99, 1.0, 0.0), "two values": (0.7, 0.2, 0.8)}


def mean_bound(values: Floats, alpha: float) -> float:
    return hf.bound(hf.ScoreSamples(values, sigma=1.0), alpha=alpha, method=hf.Naive(mean=hf.Star())).lower(0.0)


@given(st.integers(2, 300_000))
def test_blocks_are_never_empty_and_add_up(n: int) -> None:
    sizes = block_sizes(n)
    assert sum(sizes) == n
    assert min(sizes) >= 1
    assert len(sizes) <= 65


@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize("law", SKEWED)
def test_a_mean_is_missed_at_most_alpha_of_the_time(law: str, n: int) -> None:
    (often, rare, common), alpha, repeats = SKEWED[law], 0.1, 600
    rng, truth = np.random.default_rng(n), often * common + (1 - often) * rare
    draws = np.where(rng.random((repeats, n)) < often, common, rare)
    wrong = sum(mean_bound(values, alpha) > truth for values in draws)
    assert consistent(wrong, repeats, alpha), f"{wrong} of {repeats}"


@pytest.mark.parametrize("distribution", ["confident", "zero or one"])
def test_a_tangent_with_many_blocks_is_wrong_at_most_alpha_of_the_time(distribution: str) -> None:
    chosen = DISTRIBUTIONS[distribution]
    wrong = wrong_curves(
        hf.Tangent(radius=1.0), chosen, n=2_000, alpha=0.1, sides="lower", sketch=False, repeats=100, seed=8
    )
    assert consistent(wrong, 100, 0.1), f"{wrong} of 100"


def test_the_simulation_notices_bets_that_know_the_samples_they_are_made_on(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = StarGame._hedge

    def peeking(self: StarGame, payoff: Payoff, tops: Floats) -> Floats:
        high = float(np.sum(payoff.counts * payoff.y) / payoff.n) > tops - payoff.constant
        return honest(self, payoff, tops) * np.where(high, 1.0, 0.0)

    monkeypatch.setattr(StarGame, "_hedge", peeking)
    draws = np.random.default_rng(0).random((200, 600))
    wrong = sum(mean_bound(values, 0.1) > 0.5 for values in draws)
    assert not consistent(wrong, 200, 0.1)


def test_a_mean_is_bounded_nearly_as_well_as_a_normal_quantile_would() -> None:
    losses = []
    for seed in range(12):
        values = np.random.default_rng(seed).random(20_000)
        losses.append((values.mean() - mean_bound(values, 1e-3)) / (values.std() / np.sqrt(values.size)))
    betting = hf.bound(hf.ScoreSamples(values, sigma=1.0), alpha=1e-3, method=hf.Naive(mean=hf.Betting())).lower(0.0)
    assert 3.0 < np.mean(losses) < 3.4  # the normal quantile is 3.09; a constant bet loses 3.72
    assert mean_bound(values, 1e-3) > betting


def test_the_aimed_bound_keeps_a_tighter_promise_than_constant_bets() -> None:
    radii, gains = np.array([1.0, 2.0, 3.0]), []
    for seed in range(3):
        samples = hf.ScoreSamples(expit(np.random.default_rng(seed).normal(3, 2, 30_000)), sigma=1.0)
        whole = hf.bound(samples, alpha=1e-3, method=hf.Tangents()).lower(radii)  # the same share of alpha there
        gains.append([hf.bound(samples, alpha=1e-3 / 36, method=hf.Tangent(r)).lower(r) for r in radii] - whole)
    assert (np.mean(gains, axis=0) > 0).all()


@given(
    arrays(np.float64, 12, elements=st.floats(0.0, 1.0)),
    st.floats(0.01, 0.97),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_wealth_is_what_the_samples_pay_and_falls_as_theta_rises(y: Floats, bet: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    played = BettingRound(0.0, 1.0, y, np.ones(12, dtype=np.int64), np.asarray(bet), np.asarray(0.0))
    assert played.log_wealth(low) == pytest.approx(np.sum(np.log(1 + bet * (y - low))), abs=1e-9)
    assert played.log_wealth(high) <= played.log_wealth(low) + 1e-12
    found = largest_refuted([played], 0.5)
    assert found == 0.0 or played.log_wealth(found) >= 0.5


@given(arrays(np.float64, 40, elements=st.floats(0.0, 1.0)), st.floats(0.05, 0.9))
def test_grouped_samples_are_never_credited_with_more(values: Floats, stake: float) -> None:
    groups = np.sort(values).reshape(8, 5)
    spans, means = np.ptp(groups, axis=1), groups.mean(axis=1)
    of_groups = Payoff(0.0, 1.0, 0.5, 0.1, means, groups[:, 0], spans, np.full(8, 5, dtype=np.int64))
    singly = Payoff(0.0, 1.0, 0.5, 0.1, values, values, np.zeros(40), np.ones(40, dtype=np.int64))
    for theta in (0.1, 0.5, 0.9):
        assert of_groups.played(stake).log_wealth(theta) <= singly.played(stake).log_wealth(theta) + 1e-9


def test_the_order_is_needed() -> None:
    histogram = hf.ScoreSamples(np.ones(10), sigma=1.0).histogram()
    with pytest.raises(hf.InvalidArgument, match="forgotten in which order"):
        hf.bound(histogram, alpha=0.1, method=hf.Naive(mean=hf.Star()))
    with pytest.raises(hf.InvalidArgument, match="in the order of their arrival"):
        hf.Star().lower(histogram.survival_lower(), 0.1)


def test_the_whole_support_is_covered_for_tiny_samples() -> None:
    for n in (1, 2, 3, 10, 30):
        for value in (0.0, 0.5, 1.0):
            assert 0.0 <= mean_bound(np.full(n, value), 0.05) <= value + 1e-12
