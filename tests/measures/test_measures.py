"""Any measure on a certificate: bounded, claimed, described and stored by its description alone."""

import json
import pickle
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import torch

import holdfast as hf
from distributions import NOISES
from holdfast.certificates.evidence import check_claims, claimable
from holdfast.certificates.feasibility import smallest_n
from holdfast.measures import DEFAULT_MEASURES, SUM_TOLERANCE, Margin, MeasureInfo, PredictionScore, measure_named
from holdfast.plotting import in_symbols
from networks import images, small_net

mpl.use("Agg")
N = 400
RISK = MeasureInfo("risk", "risk", (0.0, 10.0), None, (1.0, 2.0))
LEAD = MeasureInfo("lead", "lead", (-2.0, 2.0), 0.5, (0.5,))


def certificate(
    *, noise: hf.Noise, claims: tuple[str, ...] = ("label", "lead", "risk"), lead: float = 1.9, sides: str = "both"
) -> hf.Certificate:
    rng = np.random.default_rng(1)
    counted = {
        LEAD: hf.ScoreSamples(np.clip(rng.normal(lead, 0.2, N), -2, 2), support=LEAD.support, noise=noise),
        RISK: hf.ScoreSamples(rng.uniform(6, 9, N), support=RISK.support, noise=noise),
    }
    evidence = hf.Evidence(N, 100, {info: scores.histogram(256) for info, scores in counted.items()})
    made = hf.Provenance(1, 0, "noise", "net", "cpu", "float32", "0", seconds=0.0)
    return hf.Certificate(4, 50, 0.01, claims, "both" if sides == "both" else "lower", hf.CDF(), evidence, made)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_certificate_takes_any_measure_by_its_description(noise: hf.Noise) -> None:
    cert = certificate(noise=noise)
    assert cert.claims == ("label", "lead", "risk")
    assert list(cert.curves) == ["lead", "risk"]
    direct = hf.bound(cert.evidence["risk"], alpha=0.01 / 3, sides="both")
    radii = noise.scale * np.array([0.0, 0.5, 1.0])
    assert np.array_equal(cert.curve("risk").lower(radii), direct.lower(radii))
    assert cert.noise == cert.curve("lead").noise == noise
    said = str(cert)
    assert "the average lead stays at least" in said
    assert "the average risk stays at least" in said
    assert noise.title in said
    assert f"in {noise.norm}" in said or noise.norm == "l2"
    assert hf.Certificate.from_dict(json.loads(json.dumps(cert.to_dict()))) == cert
    assert pickle.loads(pickle.dumps(cert)) == cert
    assert {"lead_lower", "risk_upper", "label_radius"} <= set(cert.to_dict()["summary"])
    assert f"({in_symbols(noise.norm)})" in cert.plot().get_xlabel()
    assert f"({in_symbols(noise.norm)})" in cert.recompute(claims=("label",)).plot().get_xlabel()


def test_a_measure_names_the_winner_only_above_its_own_threshold() -> None:
    noise = hf.Uniform(0.5)
    won = certificate(noise=noise)
    assert not won.label.certified
    assert won.curve("lead").lower(0.0) > 0.5
    assert not won.abstained
    short = certificate(noise=noise, lead=0.51)
    assert 0 < short.curve("lead").lower(0.0) <= 0.5
    assert short.abstained
    assert "(needs 0.5)" in short.reason
    assert "average lead only above" in short.reason
    assert "risk" not in short.reason
    silent = won.recompute(claims=("risk",))
    assert silent.abstained
    assert "no claim says which class wins" in silent.reason
    assert won.recompute(method=hf.CDF(band=hf.Empirical()), claims=("lead",)).abstained


def test_what_was_not_counted_or_not_claimed_is_refused_by_name() -> None:
    cert = certificate(noise=hf.Gaussian(0.5))
    with pytest.raises(hf.NotClaimed, match="does not claim 'score'"):
        _ = cert.score
    with pytest.raises(hf.NotClaimed, match=r"'score' was not counted .* only lead, risk"):
        _ = cert.evidence["score"]
    with pytest.raises(hf.InvalidArgument, match="one or more of label, lead, risk"):
        cert.recompute(claims=("score",))
    with pytest.raises(hf.InvalidArgument, match="holds for gaussian noise only"):
        certificate(noise=hf.Uniform(0.5)).recompute(method=hf.Tangents())


def test_claims_come_label_first_and_then_in_the_order_of_the_evidence() -> None:
    known = claimable((RISK, LEAD))
    assert known == ("label", "risk", "lead")
    assert check_claims(("lead", "label", "risk"), known) == known
    assert check_claims("lead", known) == ("lead",)
    for claims in ((), ("lead", "lead"), ("margin",)):
        with pytest.raises(hf.InvalidArgument, match="one or more of label, risk, lead"):
            check_claims(claims, known)


def test_full_agreement_must_be_able_to_name_the_winner() -> None:
    n = smallest_n(LEAD, 0.001, "lower", hf.CDF(), hf.Gaussian(1.0))
    agreed = hf.ScoreSamples(np.full(n, 2.0), support=LEAD.support, sigma=1.0)
    assert hf.bound(agreed, alpha=0.001).lower(0.0) > 0.5
    assert hf.bound(replace(agreed, values=np.full(n - 1, 2.0)), alpha=0.001).lower(0.0) <= 0.5
    assert smallest_n(RISK, 0.001, "lower", hf.CDF(), hf.Gaussian(1.0)) == 1
    hf.Settings(1, claims=("risk",)).resolved((LEAD, RISK), hf.Gaussian(1.0))
    with pytest.raises(hf.InvalidArgument, match="can never certify the lead"):
        hf.Settings(n - 1, claims=("lead",)).resolved((LEAD, RISK), hf.Gaussian(1.0))


def test_evidence_adds_measure_by_measure() -> None:
    one = certificate(noise=hf.Gaussian(0.5)).evidence
    both = one + one
    assert both.n == 2 * N
    assert (both["risk"].counts == 2 * one["risk"].counts).all()
    assert both.measures == one.measures == (LEAD, RISK)
    with pytest.raises(hf.InvalidArgument, match="that of the same measures"):
        _ = one + hf.Evidence(N, 100, {RISK: one["risk"]})
    with pytest.raises(hf.InvalidArgument, match="the same n copies everywhere"):
        hf.Evidence(N, 100, {RISK: one["risk"], LEAD: both["lead"]})
    with pytest.raises(hf.InvalidArgument, match="one histogram for each name"):
        hf.Evidence(N, 100, {RISK: one["risk"], replace(RISK, title="other"): one["risk"]})


def test_the_score_wins_only_above_what_sums_within_the_tolerance_allow() -> None:
    # Two classes whose probabilities sum to 1 + SUM_TOLERANCE: neither wins at half of that.
    info = PredictionScore().info
    assert info.winning == (1 + SUM_TOLERANCE) / 2
    assert Margin().info.winning == 0
    reached = float(hf.BerkJones().lower(np.array([N]), N, 0.01)[0])
    just = hf.ScoreSamples(np.full(N, (0.5 + SUM_TOLERANCE / 4) / reached), sigma=0.5).histogram(2**20)
    made = hf.Provenance(1, 0, "noise", "net", "cpu", "float32", "0", seconds=0.0)
    cert = hf.Certificate(0, 50, 0.01, ("score",), "lower", hf.CDF(), hf.Evidence(N, 100, {info: just}), made)
    assert 0.5 < cert.score.lower(0.0) < info.winning
    assert cert.abstained
    assert "(needs 0.5)" in cert.reason


def test_the_mass_of_a_set_is_the_sum_of_its_columns() -> None:
    mass, probabilities = hf.Mass({2, 0}), torch.tensor([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]])
    assert mass(probabilities, torch.tensor([1, 1])).tolist() == [0.5, 0.0]
    assert (mass.name, mass.title, mass.winning) == ("mass-0-2", "mass of classes 0, 2", None)
    assert measure_named("mass-0-2").info == mass.info
    assert [measure_named(each.name).info for each in DEFAULT_MEASURES] == [each.info for each in DEFAULT_MEASURES]
    with pytest.raises(hf.InvalidArgument, match="names class 7, but the model has 3"):
        hf.Mass({7})(probabilities, torch.tensor([1, 1]))
    with pytest.raises(hf.InvalidArgument, match="one or more classes"):
        hf.Mass(())
    with pytest.raises(hf.InvalidArgument, match=r"a set of classes, such as Mass\(\{3, 5\}\), got 3"):
        hf.Mass(3)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="a list of measures"):
        hf.SmoothedClassifier(small_net(), 0.25, measures=hf.Mass({1}))  # type: ignore[arg-type]
    for name in ("loss", "mass", "mass-x"):
        with pytest.raises(hf.InvalidArgument, match=f"unknown measure '{name}'"):
            measure_named(name)


def test_a_mass_may_have_a_name_of_its_own() -> None:
    probabilities = torch.tensor([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]])
    animal = hf.Mass({2, 0}, name="any-animal")
    assert animal(probabilities, torch.tensor([1, 1])).tolist() == [0.5, 0.0]
    assert (animal.info.name, animal.info.title) == ("any-animal", "mass of any animal (classes 0, 2)")
    assert animal.info != hf.Mass({1, 0}, name="any-animal").info
    for name in ("", "Animal", "an animal", "label", "votes", 3):
        with pytest.raises(hf.InvalidArgument, match="a measure's name must be lower-case words"):
            hf.Mass({2}, name=name)  # type: ignore[arg-type]
    smoothed = hf.SmoothedClassifier(small_net(), 0.25, measures=(hf.Mass({1, 2}, name="animal"),))
    cert = smoothed.certify(images(1)[0], n=200, n0=20, seed=1)
    same = hf.SmoothedClassifier(small_net(), 0.25, measures=(hf.Mass({1, 2}),)).certify(
        images(1)[0], n=200, n0=20, seed=1
    )
    assert cert.claims == ("label", "score", "margin", "animal")
    assert cert.curve("animal").lower(0.1) == same.curve("mass-1-2").lower(0.1) > 0
    assert "the average mass of animal (classes 1, 2) stays at least" in cert.describe()
    with pytest.raises(hf.InvalidArgument, match="different names"):
        hf.SmoothedClassifier(small_net(), 0.25, measures=(hf.Mass({1}, name="score"),))


def test_a_description_is_checked_and_read_back() -> None:
    assert MeasureInfo.from_dict(json.loads(json.dumps(LEAD.to_dict()))) == LEAD
    for name in ("", "Score", "label", "a b", "votes"):
        with pytest.raises(hf.InvalidArgument, match="a measure's name must be"):
            MeasureInfo(name, "title", (0.0, 1.0))
    with pytest.raises(hf.InvalidArgument, match="winning must be one finite number"):
        MeasureInfo("lead", "lead", (0.0, 1.0), float("nan"))
