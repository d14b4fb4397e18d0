"""Every class at once: one alpha, both sides, and leads that are at least the margin."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

import holdfast as hf
from holdfast.certificates.classes import ClassCounts
from holdfast.models import TorchModel
from networks import Recorder, images, small_net
from spans import CLASSES, sampler, span

SIGMA = 0.5
RADII = np.array([0.0, 0.2, 0.5, 1.0])


def test_bounds_of_two_classes_hold_their_closed_form() -> None:
    model = hf.ProbitModel([1.0, -2.0], 0.6)
    x = np.array([0.3, 0.1], dtype=np.float32)
    low = model.worst_case(x, SIGMA, RADII)
    high = 1 - hf.ProbitModel([-1.0, 2.0], -0.6).worst_case(x, SIGMA, RADII)
    cert = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities").certify_classes(x, n=20_000, seed=3)
    lower, upper, gap = cert.lower(RADII), cert.upper(RADII), cert.gap(RADII)
    assert lower.shape == upper.shape == gap.shape == (2, 4)
    for bound, truth in ((lower[0], low), (lower[1], 1 - high)):
        assert (bound <= truth).all()
        assert (truth - bound < 0.06).all()
    for bound, truth in ((upper[0], high), (upper[1], 1 - low)):
        assert (bound >= truth).all()
        assert (bound - truth < 0.06).all()
    assert (gap[0] == 0).all()
    assert (gap[1] <= 2 * low - 1).all()
    # The true gap vanishes where the linear score does, at distance (w.x + b) / |w|.
    assert 0 < cert.winner_radius <= 0.7 / np.sqrt(5)
    assert cert.gap(cert.winner_radius)[1] > 0


@pytest.mark.slow
def test_everything_on_it_is_true_at_once_often_enough() -> None:
    alpha, repeats = 0.3, 250
    model = hf.ProbitModel([1.0, -2.0], 0.6)
    x = np.array([0.3, 0.1], dtype=np.float32)
    low = model.worst_case(x, SIGMA, RADII)
    high = 1 - hf.ProbitModel([-1.0, 2.0], -0.6).worst_case(x, SIGMA, RADII)
    smoothed = hf.SmoothedClassifier(model, SIGMA, outputs="probabilities", batch=512)
    wrong = 0
    for seed in range(repeats):
        cert = smoothed.certify_classes(x, n=80, n0=200, alpha=alpha, seed=seed)
        bad = bool(
            (cert.lower(RADII) > np.stack((low, 1 - high))).any()
            or (cert.upper(RADII) < np.stack((high, 1 - low))).any()
        )
        wrong += bad or bool((cert.gap(RADII)[1 - cert.predicted] > 2 * low - 1).any())
    assert binomtest(wrong, repeats, alpha, alternative="greater").pvalue > 1e-4


def test_the_lead_over_one_class_is_at_least_the_margin_over_the_best() -> None:
    smoothed = hf.SmoothedClassifier(small_net(5), 0.3)
    x = images(1)[0]
    classes = smoothed.certify_classes(x, n=4_000, claims=("gaps",), alpha=0.04, seed=2)
    margin = smoothed.certify(x, n=4_000, claims=("margin",), alpha=0.01, seed=2).margin
    leads = np.delete(classes.gap(RADII), classes.predicted, axis=0)
    assert (leads >= margin.lower(RADII) - 2e-3).all()
    assert leads.max() > margin.lower(0.0) + 0.05


def test_counts_do_not_depend_on_batches_and_spans_merge() -> None:
    x = torch.from_numpy(images(1)[0])
    found = []
    for batch in (16, 300):
        spans = [replace(span(x, *ends, 1), counting=CLASSES) for ends in ((0, 1_700), (0, 450), (450, 1_700))]
        whole, *parts = sampler(TorchModel(small_net(3)), batch=batch).count(spans)
        assert isinstance(whole, ClassCounts)
        assert parts[0] + parts[1] == whole  # type: ignore[operator]
        assert all(histogram.n == 1_700 for histogram in (*whole.scores, *whole.gaps))
        found.append(whole)
    assert found[0] == found[1]


def test_claims_that_were_not_made_and_claims_that_do_not_exist_are_refused() -> None:
    smoothed = hf.SmoothedClassifier(small_net(3), 0.3)
    cert = smoothed.certify_classes(images(1)[0], n=200, claims=("scores",))
    with pytest.raises(hf.NotClaimed, match="'gaps'"):
        cert.gap(0.1)
    with pytest.raises(hf.InvalidArgument, match="scores, gaps"):
        smoothed.certify_classes(images(1)[0], n=200, claims=("votes",))


def test_a_question_is_checked_before_anything_is_sampled() -> None:
    net = Recorder(small_net(3))
    smoothed = hf.SmoothedClassifier(net, 0.3)
    for options in (
        {"claims": ("score",)},
        {"method": hf.Tangents()},
        {"method": hf.CDF(hf.Empirical())},
        {"method": "cdf"},
    ):
        with pytest.raises(hf.InvalidArgument):
            smoothed.certify_classes(images(1)[0], n=200, **options)
    with pytest.raises(hf.InvalidArgument, match="different numbers"):
        smoothed.decide_many(images(2), at_least=0.5, radius=0.1, indices=[1, 1])
    with pytest.raises(hf.InvalidArgument, match="at_least"):
        smoothed.find_radius(images(1)[0], at_least=2.0)
    with pytest.raises(hf.InvalidArgument, match="one finite number"):
        smoothed.decide(images(1)[0], at_least=0.5, radius=[0.1, 0.2])  # type: ignore[arg-type]
    assert net.rows == []
