"""What Holdfast 0.1.0 wrote is still read, and says the same."""

import json
from pathlib import Path

import pytest

import holdfast as hf

WRITTEN = Path(__file__).parent / "written_by_0_1_0"


def test_a_certificate_still_says_the_same() -> None:
    written = json.loads((WRITTEN / "certificate.json").read_text())
    found = hf.Certificate.from_dict(written)
    assert found.noise == hf.Gaussian(0.25)
    assert found.sigma == 0.25
    again = json.loads(json.dumps(found.to_dict()))
    assert {**again, "evidence": None} == {**written, "evidence": None}
    for name, value in written["evidence"].items():
        new = again["evidence"][name]
        assert new == value if not isinstance(value, dict) else {**new, **value} == new
    assert hf.Certificate.from_dict(again) == found


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
