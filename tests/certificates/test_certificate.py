"""The certificate as a value: what it claims, what it costs, what it says."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import beta, norm

import holdfast as hf
from networks import images, small_net

mpl.use("Agg")
SIGMA = 0.2


@pytest.fixture(scope="module")
def cert() -> hf.Certificate:
    return hf.SmoothedClassifier(small_net(), SIGMA).certify(images(1)[0], n=3_000, sides="both", seed=1)


def test_each_claim_takes_an_equal_share_of_alpha(cert: hf.Certificate) -> None:
    assert cert.alpha == 0.001
    assert cert.score.alpha == cert.margin.alpha == cert.label.alpha == pytest.approx(0.001 / 3)
    alone = cert.recompute(claims=("score",))
    assert alone.score.alpha == 0.001
    assert alone.score.lower(0.1) > cert.score.lower(0.1)
    direct = hf.bound(cert.evidence["score"], alpha=0.001 / 3, sides="both")
    assert direct.lower(0.3) == pytest.approx(cert.score.lower(0.3), abs=1e-7)
    assert direct.lower(0.3) >= cert.score.lower(0.3), "an error in drawing is allowed for"


def test_a_claim_that_was_not_made_is_refused_by_name(cert: hf.Certificate) -> None:
    with pytest.raises(hf.NotClaimed, match=r"'margin'.*claims=.*recompute"):
        _ = cert.recompute(claims=("label",)).margin
    with pytest.raises(hf.NotClaimed, match="'label'"):
        _ = cert.recompute(claims=("score",)).label_radius
    with pytest.raises(hf.NotClaimed, match="lower side only"):
        cert.recompute(sides="lower").score.upper(0.1)
    for wrong in ("tangents", hf.Tangents, hf.Empirical()):
        with pytest.raises(hf.InvalidArgument, match="method must be one such as"):
            cert.recompute(method=wrong)  # type: ignore[arg-type]


def test_the_label_radius_is_cohens() -> None:
    votes, n, alpha = 970, 1_000, 0.001
    label = hf.LabelCertificate(votes, n, SIGMA, alpha)
    exact = beta.ppf(alpha, votes, n - votes + 1)
    assert label.probability == pytest.approx(exact, rel=1e-9)
    assert label.probability <= exact
    assert label.radius == pytest.approx(SIGMA * norm.ppf(exact), rel=1e-9)
    assert label.radius <= SIGMA * norm.ppf(exact)
    unanimous = hf.LabelCertificate(n, n, SIGMA, alpha)
    assert unanimous.probability == pytest.approx(alpha ** (1 / n), rel=1e-9)
    assert hf.LabelCertificate(500, n, SIGMA, alpha).radius == 0.0
    assert hf.LabelCertificate(0, n, SIGMA, alpha).probability == 0.0


def test_a_certificate_of_low_confidence_abstains_says_why_and_stays_a_certificate() -> None:
    flat = hf.ProbitModel([0.01, 0.01], 0.0)
    cert = hf.SmoothedClassifier(flat, SIGMA, outputs="probabilities").certify(
        np.zeros(2, dtype=np.float32), n=2_000, seed=1
    )
    assert cert.abstained
    assert "needs 0.5" in cert.reason
    assert f"class {cert.predicted}" in cert.reason
    assert cert.score.lower(0.1) > 0.4
    assert cert.label_radius == 0.0
    assert str(cert).startswith("Abstains: ")


def test_a_confident_certificate_does_not_abstain_and_has_no_reason() -> None:
    sure = hf.ProbitModel([0.1, 0.1], 3.0)
    cert = hf.SmoothedClassifier(sure, SIGMA, outputs="probabilities").certify(
        np.zeros(2, dtype=np.float32), n=2_000, seed=1
    )
    assert not cert.abstained
    assert cert.reason == ""
    assert cert.label_radius > 0


def test_it_goes_to_json_and_back_unchanged(cert: hf.Certificate) -> None:
    text = json.dumps(cert.to_dict())
    back = hf.Certificate.from_dict(json.loads(text))
    assert back == cert
    radii = np.linspace(0, 1, 9)
    assert np.array_equal(back.score.lower(radii), cert.score.lower(radii))
    assert np.array_equal(back.margin.upper(radii), cert.margin.upper(radii))
    assert back.seed == cert.seed
    assert cert.to_dict()["summary"]["label_radius"] == cert.label_radius


def test_a_foreign_dictionary_is_refused() -> None:
    with pytest.raises(hf.InvalidArgument, match="format 1"):
        hf.Certificate.from_dict({"format": 99})
    with pytest.raises(hf.InvalidArgument, match="not a certificate"):
        hf.Certificate.from_dict({"format": 1})
    for value in (None, [1], "certificate"):
        with pytest.raises(hf.InvalidArgument, match="a dictionary, got"):
            hf.Certificate.from_dict(value)  # type: ignore[arg-type]
        with pytest.raises(hf.InvalidArgument, match="a dictionary, got"):
            hf.Triage.from_dict(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("evidence", "margin", "sigma"), 99.0, "noise and sigma must agree"),
        (("evidence", "margin", "noise"), {"kind": "uniform", "half_width": 0.2}, "noise and sigma must agree"),
        (("evidence", "margin", "noise"), {"kind": "pink"}, "'pink' is not known here"),
        (("evidence", "margin", "noise"), {"kind": "uniform", "sigma": 1.0}, "does not have these parameters"),
        (("evidence", "score", "support"), [0.0, 2.0], r"score must have the support \(0.0, 1.0\)"),
        (("evidence", "margin", "support"), [0.0, 1.0], r"margin must have the support \(-1.0, 1.0\)"),
        (("evidence", "votes"), 1.5, "votes must be a whole number"),
        (("evidence", "votes"), True, "votes must be a whole number"),
        (("evidence", "n"), float("inf"), "n must be a whole number"),
        (("evidence", "score", "sigma"), 1e300, "sigma must be between"),
        (("evidence", "score", "sigma"), 1e-300, "sigma must be between"),
        (("evidence", "score", "bins"), 10**15, "bins must be a whole number"),
        (("evidence", "score", "counts"), [10**30], "whole numbers"),
        (("evidence", "score", "counts"), [0.5], "whole numbers"),
        (("predicted",), 1.9, "predicted must be a whole number"),
        (("predicted",), True, "predicted must be a whole number"),
        (("n0",), float("inf"), "n0 must be a whole number"),
        (("alpha",), "0.001", "alpha must be in"),
        (("provenance",), 3, "not a certificate"),
        (("evidence", "votes"), 7, "the votes do not fit the margins: expected "),
        (("predicted",), 2**70, "predicted must be a whole number"),
        (("evidence", "measures", 0, "winning"), -1.0, "the support and winning average that every score has"),
    ],
)
def test_an_edited_certificate_is_refused_with_a_reason(
    cert: hf.Certificate, path: tuple[str | int, ...], value: Any, complaint: str
) -> None:
    document = json.loads(json.dumps(cert.to_dict()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.Certificate.from_dict(document)


def test_evidence_is_of_one_noise(cert: hf.Certificate) -> None:
    evidence = cert.evidence
    other = replace(evidence["margin"], noise=hf.Gaussian(2 * cert.sigma))
    with pytest.raises(hf.InvalidArgument, match="one noise"):
        replace(evidence, histograms={**evidence.histograms, evidence.measure("margin"): other})


def test_the_sentence_rounds_every_number_to_the_safe_side(cert: hf.Certificate) -> None:
    text = str(cert)
    numbers = {
        name: float(value) for name, value in re.findall(r"average (score|margin) stays at least (-?[\d.]+\d)", text)
    }
    assert numbers["score"] <= cert.score.lower(SIGMA) < numbers["score"] + 1e-3
    assert numbers["margin"] <= cert.margin.lower(SIGMA) < numbers["margin"] + 1e-3
    above = [float(value) for value in re.findall(r"and at most (-?[\d.]+\d)", text)]
    assert above[0] - 1e-3 < cert.score.upper(SIGMA) <= above[0]
    assert "probability at least 99.9%" in text
    assert "probability at least 99.9999999%" in str(cert.recompute(alpha=1e-9))
    assert "probability at least 1 - 1e-30" in str(cert.recompute(alpha=1e-30))


def test_an_estimate_is_never_called_a_certificate(cert: hf.Certificate) -> None:
    best = cert.recompute(method=hf.Naive(mean=hf.EmpiricalMean()))
    assert not best.score.guaranteed
    assert "not a certificate" in repr(best.score)
    assert "NOT a certificate" in str(best)
    assert "probability at least" not in str(best)
    assert best.recompute(claims=("score",)).abstained
    assert "NOT" not in str(cert)
    assert cert.score.guaranteed
    assert best.score.lower(0.1) >= cert.recompute(method=hf.Naive()).score.lower(0.1)


def test_other_settings_need_no_new_samples(cert: hf.Certificate) -> None:
    looser = cert.recompute(alpha=0.05)
    assert looser.evidence is cert.evidence
    assert looser.score.lower(0.2) > cert.score.lower(0.2)


def test_the_plot_draws_what_was_claimed(cert: hf.Certificate) -> None:
    axes = cert.plot()
    labels = set(axes.get_legend_handles_labels()[1])
    assert {"score", "margin"} <= labels
    assert f"σ = {cert.sigma}, α = {cert.alpha}" in axes.get_title()
    drawn = axes.lines[0].get_ydata()
    radii = axes.lines[0].get_xdata()
    assert np.array_equal(np.asarray(drawn), cert.score.lower(np.asarray(radii, dtype=np.float64)))
    assert cert.recompute(claims=("score",), sides="lower").plot().lines[0].get_label() == "score"


def test_both_sides_bracket_the_sample_mean(cert: hf.Certificate) -> None:
    mean = cert.evidence["score"].survival_lower().mean
    assert cert.score.lower(0.0) < mean < cert.score.upper(0.0)
    assert cert.score.radius(at_most=1.0) == math.inf
