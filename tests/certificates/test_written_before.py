"""What Holdfast 0.1.0 wrote is still read, and says the same."""

import json
from pathlib import Path

import numpy as np
import pytest

import holdfast as hf
from evidence import evidence_of

WRITTEN = Path(__file__).parent / "written_by_0_1_0"


def test_a_certificate_still_says_the_same() -> None:
    written = json.loads((WRITTEN / "certificate.json").read_text())
    found = hf.Certificate.from_dict(written)
    assert found.noise == hf.Gaussian(0.25)
    assert found.sigma == 0.25
    again = json.loads(json.dumps(found.to_dict()))
    said, before = again.pop("summary"), written.pop("summary")
    assert {**again, "evidence": None} == {**written, "evidence": None}
    assert said.keys() == before.keys()
    for name in before:  # sums of floats: their last digit is the machine's
        assert said[name] == pytest.approx(before[name], abs=1e-14), name
    for name, value in written["evidence"].items():
        new = again["evidence"][name]
        assert new == value if not isinstance(value, dict) else {**new, **value} == new
    assert hf.Certificate.from_dict(again) == found


def test_a_score_that_was_checked_less_closely_wins_a_little_later() -> None:
    """0.1.0 let probabilities sum to 1.001, so that two classes could both have averages of 0.5002."""
    made = hf.Provenance(1, 0, "noise", "net", "cpu", "float32", "0.1.0", seconds=0.0)
    reached = float(hf.BerkJones().lower(np.array([400]), 400, 0.01)[0])
    for average, wins in ((0.5002, False), (0.5006, True)):
        scores = hf.ScoreSamples(np.full(400, average / reached), sigma=0.5).histogram(2**20)
        cert = hf.Certificate(
            predicted=0,
            n0=50,
            alpha=0.01,
            claims=("score",),
            sides="lower",
            method=hf.CDF(),
            evidence=evidence_of(
                400, 100, scores, hf.ScoreSamples(np.zeros(400), support=(-1, 1), sigma=0.5).histogram()
            ),
            provenance=made,
        )
        assert cert.score.lower(0.0) == pytest.approx(average, abs=1e-5)
        assert not cert.abstained
        written = cert.to_dict()
        del written["evidence"]["measures"]
        old = hf.Certificate.from_dict(written)
        assert old.score.lower(0.0) == cert.score.lower(0.0)
        assert old.abstained is not wins


def test_a_triage_still_has_the_tolerance_it_was_made_with() -> None:
    written = json.loads((WRITTEN / "triage.json").read_text())
    found = hf.Triage.from_dict(written)
    assert found.origin.noise == hf.Gaussian(0.25)
    assert found.origin.sum_tolerance == 1e-3
    assert str(found) == written["guarantee"]
    assert hf.Triage.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    stricter = {**written, "origin": {**written["origin"], "sum_tolerance": 2.0**-16}}
    with pytest.raises(hf.InvalidArgument, match="not a triage file as it was written"):
        hf.Triage.from_dict(stricter)
