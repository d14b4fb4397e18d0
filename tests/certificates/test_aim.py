"""A certificate aimed at a radius: tighter there, for half of alpha, from the same counts in a random order."""

import json
import pickle

import numpy as np
import pytest

import holdfast as hf

SIGMA, AIM, N = 0.5, 0.5, 20_000
X = np.zeros(6, dtype=np.float32)


def smoothed() -> hf.SmoothedClassifier:
    model = hf.ProbitModel(np.full(6, 0.5), 1.5)
    return hf.SmoothedClassifier(model, SIGMA, inputs="any", outputs="probabilities")


def aimed(**settings: object) -> hf.Certificate:
    asked: dict[str, object] = {"claims": ("score",), "alpha": 1e-3, "seed": 7, "n": N, "aim": AIM, **settings}
    return smoothed().certify(X, **asked)  # type: ignore[arg-type]


def test_the_copies_are_those_of_a_certificate_without_an_aim() -> None:
    plain, with_aim = aimed(aim=None), aimed()
    assert with_aim.predicted == plain.predicted
    assert with_aim.evidence["score"] == plain.evidence["score"]
    assert with_aim.evidence.votes == plain.evidence.votes
    assert plain.recompute(method=with_aim.method).score.lower(AIM) == with_aim.score.lower(AIM)


def test_it_is_the_best_of_both_methods_at_half_of_alpha() -> None:
    found, r = aimed(), np.linspace(0, 2.0, 21)
    half = {method: found.recompute(method=method, alpha=5e-4).score.lower(r) for method in (hf.CDF(), hf.Tangent(AIM))}
    assert found.score.lower(r) == pytest.approx(np.maximum(*half.values()), abs=1e-12)
    assert found.score.lower(AIM) > aimed(aim=None).score.lower(AIM)
    assert found.alpha == 1e-3


def test_it_survives_writing_and_sending() -> None:
    found = aimed()
    for again in (hf.Certificate.from_dict(json.loads(json.dumps(found.to_dict()))), pickle.loads(pickle.dumps(found))):
        assert again.score.lower(AIM) == found.score.lower(AIM)
        assert again.method == found.method


def test_many_inputs_can_share_an_aim() -> None:
    found = smoothed().certify_many([X, X + 0.25], n=2_000, alpha=0.01, claims=("score",), seed=7, aim=AIM)
    assert [each.method.name for each in found] == [f"cdf-berk-jones+tangent-{AIM}"] * 2


@pytest.mark.slow
def test_the_truth_is_missed_at_most_alpha_of_the_time() -> None:
    from scipy.special import ndtr

    from test_guarantees import consistent

    classifier = smoothed()
    m, length = 1.5, float(np.linalg.norm(np.full(6, 0.5)))
    truth = float(ndtr((m - AIM * length) / np.sqrt(1 + (SIGMA * length) ** 2)))
    wrong, repeats, alpha = 0, 120, 0.1
    for seed in range(repeats):
        found = classifier.certify(X, n=400, alpha=alpha, claims=("score",), aim=AIM, seed=seed)
        wrong += found.score.lower(AIM) > truth
    assert consistent(wrong, repeats, alpha)


def test_a_wrong_aim_is_refused_before_any_work() -> None:
    with pytest.raises(hf.InvalidArgument, match="aim must be"):
        aimed(aim=-1.0)


def test_settings_take_the_aim_that_certify_takes() -> None:
    settings = hf.Settings(n=N, claims=("score",), aim=AIM)
    assert settings.method == aimed().method
    model = smoothed()
    assert settings.resolved([measure.info for measure in model.measures], model.noise).method == settings.method
    found = next(model.stream([X], [0], settings, seed=7))
    assert found.score.lower(AIM) == aimed().score.lower(AIM)
    with pytest.raises(hf.InvalidArgument, match="aim must be one finite number"):
        hf.Settings(aim="near")  # type: ignore[arg-type]
