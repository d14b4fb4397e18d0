"""Early stopping: sound although it looks, cheap, and rarely of another opinion than a full run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import holdfast as hf
from distributions import DISTRIBUTIONS, NOISES, source
from holdfast.sequential import RadiusSearch
from networks import Recorder, images, small_net
from test_guarantees import consistent

Floats = NDArray[np.float64]


def prefix(values: Floats, noise: hf.Noise) -> Callable[[int], hf.Scores]:
    """The first n of prepared scores."""
    return lambda n: hf.ScoreSamples(values[:n], noise=noise)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("r", [0.0, 1.0, 2.0])
def test_a_false_statement_is_certified_at_most_alpha_of_the_time(name: str, r: float) -> None:
    alpha, repeats = 0.1, 250
    truth = float(DISTRIBUTIONS[name].lowest(np.array([r]))[0])
    false = min(truth * (1 + 1e-9) + 1e-9, 0.999_999)  # as hard as it gets: false by a hair
    if false <= truth:
        pytest.skip("nothing above the truth is left to claim")
    rng = np.random.default_rng(17)
    wrong = 0
    for _ in range(repeats):
        draw = source(DISTRIBUTIONS[name].sample(rng, (3_000,)))
        wrong += hf.decide(draw, at_least=false, radius=r, sigma=1.0, alpha=alpha, n_max=3_000).certified
    assert consistent(wrong, repeats, alpha), f"{wrong} of {repeats}"


def test_a_plainly_true_statement_is_certified_with_few_samples() -> None:
    draw = source(DISTRIBUTIONS["confident"].sample(np.random.default_rng(1), (100_000,)))
    decision = hf.decide(draw, at_least=0.6, radius=1.0, sigma=1.0)
    assert decision.certified
    assert decision.samples <= 2_000
    assert decision.saved == 100_000 - decision.samples
    assert "certified after" in str(decision)


def test_a_plainly_false_statement_is_given_up_early() -> None:
    draw = source(DISTRIBUTIONS["continuous"].sample(np.random.default_rng(1), (100_000,)))
    decision = hf.decide(draw, at_least=0.95, radius=2.0, sigma=1.0)
    assert not decision.certified
    assert decision.samples <= 1_000
    assert "gave up" in decision.reason


@pytest.mark.slow
def test_decisions_agree_with_full_runs_and_cost_a_fraction() -> None:
    rng = np.random.default_rng(4)
    agree, samples, repeats = 0, 0, 120
    for _ in range(repeats):
        values = 1 / (1 + np.exp(-rng.normal(rng.normal(3, 3), rng.uniform(0.7, 3), 100_000)))
        c, radius = float(rng.choice([0.5, 0.7, 0.9])), float(rng.choice([0.25, 0.5, 0.75]))
        decision = hf.decide(source(values), at_least=c, radius=radius, sigma=0.25)
        full = hf.bound(hf.ScoreSamples(values, sigma=0.25), alpha=1e-3).lower(radius) >= c
        agree += decision.certified == full
        samples += decision.samples
    assert agree >= 0.98 * repeats
    assert samples / repeats < 5_000


def test_a_network_is_decided_like_its_own_scores() -> None:
    smoothed = hf.SmoothedClassifier(hf.ProbitModel([1.0, -2.0], 1.5), 0.5, outputs="probabilities")
    x = np.array([0.3, 0.1], dtype=np.float32)
    low = hf.ProbitModel([1.0, -2.0], 1.5).worst_case(x, 0.5, 0.25)
    yes = smoothed.decide(x, at_least=float(low) - 0.1, radius=0.25, seed=1)
    no = smoothed.decide(x, at_least=float(low) + 0.1, radius=0.25, seed=1)
    assert yes.certified
    assert not no.certified
    assert max(yes.samples, no.samples) < 20_000
    assert smoothed.decide(x, at_least=float(low) - 0.1, radius=0.25, seed=1, batch=33) == yes
    assert smoothed.decide(x, at_least=2 * float(low) - 1.2, radius=0.25, measure="margin", seed=1).certified


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"at_least": 1.0}, "strictly between 0 and 1"),
        ({"radius": -1.0}, "radius must be"),
        ({"alpha": 0.9}, "alpha must be"),
        ({"n_max": 1}, "n_max must be"),
        ({"sigma": 0.0}, "sigma must be"),
    ],
)
def test_questions_that_make_no_sense_are_refused(change: dict[str, Any], complaint: str) -> None:
    options: dict[str, Any] = {"at_least": 0.5, "radius": 0.1, "sigma": 1.0, **change}
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.decide(lambda n: np.ones(n), **options)


def test_a_source_that_returns_the_wrong_number_is_refused() -> None:
    with pytest.raises(hf.InvalidInput, match=r"draw\(250\) must return 250 scores"):
        hf.decide(lambda _: np.ones(3), at_least=0.5, radius=0.1, sigma=1.0)
    with pytest.raises(hf.InvalidArgument, match="measure must be"):
        hf.SmoothedClassifier(small_net(), 0.2).decide(images(1)[0], at_least=0.5, radius=0.1, measure="loss")


@pytest.mark.slow
def test_an_adaptive_radius_is_too_large_at_most_alpha_of_the_time() -> None:
    alpha, repeats, c = 0.2, 300, 0.6
    truth = DISTRIBUTIONS["continuous"]
    radii = np.linspace(0, 3, 30_001)
    best = float(radii[truth.lowest(radii) >= c].max())
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(repeats):
        values = truth.sample(rng, (2_000,))
        found = hf.adaptive_radius(
            prefix(values, hf.Gaussian(1.0)),
            at_least=c,
            within=0.05,
            alpha=alpha,
            n_max=2_000,
        )
        wrong += found.radius > best + 1e-4
    assert consistent(wrong, repeats, alpha)


def test_an_adaptive_radius_stops_when_it_is_near_the_estimate() -> None:
    values = DISTRIBUTIONS["confident"].sample(np.random.default_rng(3), (100_000,))

    first = prefix(values, hf.Gaussian(0.25))
    loose, tight = (
        hf.adaptive_radius(first, at_least=0.7, within=within, alpha=0.01, n_max=100_000) for within in (0.2, 0.06)
    )
    assert loose.settled
    assert tight.settled
    assert loose.samples < tight.samples < 100_000
    assert loose.radius <= tight.radius <= tight.estimate
    assert tight.saved == 100_000 - tight.samples
    with pytest.raises(hf.InvalidArgument, match="within must be"):
        hf.adaptive_radius(first, at_least=0.7, within=0.0, alpha=0.01, n_max=1_000)


def test_a_networks_radius_is_found_below_the_closed_form() -> None:
    model = hf.ProbitModel([1.0, -2.0], 1.5)
    x = np.array([0.3, 0.1], dtype=np.float32)
    found = hf.SmoothedClassifier(model, 0.5, outputs="probabilities").find_radius(
        x, at_least=0.6, within=0.1, n_max=8_000, seed=1
    )
    radii = np.linspace(0, 2, 20_001)
    best = float(radii[model.worst_case(x, 0.5, radii) >= 0.6].max())
    assert 0 < found.radius <= best
    assert found.settled
    assert found.predicted == 0
    assert found.seed == 1


def test_scores_that_are_all_high_settle_at_what_samples_can_certify() -> None:
    found = hf.adaptive_radius(
        prefix(np.full(4_000, 0.9), hf.Gaussian(1.0)), at_least=0.5, within=0.4, alpha=0.01, n_max=4_000
    )
    assert np.isfinite(found.estimate)
    assert found.settled
    assert found.samples < 4_000
    with pytest.raises(hf.InvalidInput, match="expected the first 500"):
        hf.adaptive_radius(prefix(np.ones(50), hf.Gaussian(1.0)), at_least=0.5, within=0.1, alpha=0.01, n_max=4_000)


def test_a_claim_that_fails_at_the_input_itself_is_said_to_be_uncertified_and_never_settled() -> None:
    options: dict[str, Any] = {"within": 0.1, "alpha": 0.01, "n_max": 4_000}
    first = prefix(np.full(4_000, 0.6), hf.Gaussian(1.0))
    for at_least in (0.9, 0.6 - 1e-9):  # plainly false, and true but by too little to be shown
        failed = hf.adaptive_radius(first, at_least=at_least, **options)
        assert failed.radius == 0.0
        assert not failed.certified
        assert not failed.settled
        assert "not certified at the input itself" in str(failed)
    shown = hf.adaptive_radius(first, at_least=0.5, **options)
    assert shown.certified
    assert shown.radius > 0
    assert "certified after" in str(shown)
    nowhere_else = replace(shown, radius=0.0)
    assert nowhere_else.certified
    assert "at the input itself, and no further" in str(nowhere_else)


def test_a_search_says_how_many_samples_it_wants_and_is_what_the_function_drives() -> None:
    values = DISTRIBUTIONS["confident"].sample(np.random.default_rng(3), (4_000,))
    for noise in NOISES.values():
        options: dict[str, Any] = {"at_least": 0.7, "within": 0.05 * noise.scale, "alpha": 0.01, "n_max": 4_000}
        search = RadiusSearch(**options)
        wanted = []
        while search.result is None:
            wanted.append(search.next_batch)
            search.update(hf.ScoreSamples(values[: search.drawn + search.next_batch], noise=noise))
        assert wanted == [500, 500, 1_000, 2_000][: len(wanted)]
        assert search.next_batch == 0
        assert search.drawn == search.result.samples == sum(wanted)
        assert search.result == hf.adaptive_radius(prefix(values, noise), **options)
        truth = DISTRIBUTIONS["confident"].worst(noise, np.array([search.result.radius]))
        assert truth[0] >= 0.7
        with pytest.raises(hf.InvalidInput, match="expected the first"):
            search.update(hf.ScoreSamples(values, noise=noise))


def test_a_radius_beyond_all_reach_is_not_certified_and_a_short_stream_still_can_be() -> None:
    far = hf.decide(lambda n: np.ones(n), at_least=0.5, radius=50.0, sigma=1.0)
    assert not far.certified
    assert "beyond what samples can reach" in far.reason
    short = hf.decide(lambda n: np.ones(n), at_least=0.5, radius=0.1, sigma=1.0, alpha=0.05, n_max=100)
    assert short.certified


def test_many_inputs_are_decided_as_each_alone_with_full_batches() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, batch=64)
    xs = images(40)
    many = smoothed.decide_many(xs, at_least=0.4, radius=0.1, n_max=2_000, seed=3)
    for position in (0, 7, 39):
        alone = smoothed.decide(xs[position], at_least=0.4, radius=0.1, n_max=2_000, seed=3, index=position)
        assert many[position] == alone
    assert len({each.samples for each in many}) > 2, "some must stop earlier than others"


def test_a_decided_input_makes_room_for_the_next() -> None:
    net = Recorder(small_net())
    smoothed = hf.SmoothedClassifier(net, 0.3, batch=500)
    decisions = smoothed.decide_many(images(60), at_least=0.4, radius=0.1, n_max=1_500, n0=20, seed=3)
    copies = sum(each.samples for each in decisions) + 60 * 20
    passes = sum(rows == 500 for rows in net.rows)
    # Padding wastes at most one batch a round, and rounds are few because the window stays full.
    assert passes * 500 <= copies + 500 * 30
