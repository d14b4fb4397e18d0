"""What results show of themselves in a notebook."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.notebook import Bar, Chart, Line, card
from made_runs import made_run
from networks import images, small_net

STORED = Path(__file__).parent / "certificates" / "written_by_0_1_0"


def shown(result: Any) -> str:
    """Well-formed, without scripts, in both themes, and not large."""
    html: str = result._repr_html_()
    ElementTree.fromstring(html)
    assert "<script" not in html
    assert "prefers-color-scheme:dark" in html
    assert "data-jp-theme-light=false" in html
    assert len(html) < 20_000
    return html


def lines(html: str) -> int:
    """Curves drawn: paths in a colour of their own."""
    return len(re.findall(r'<path d="M[^"]*" style="stroke:var\(--hf', html))


@pytest.fixture(scope="module")
def smoothed() -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net(), sigma=0.5)


def test_a_certificate_shows_its_sentence_and_a_curve_for_each_claim() -> None:
    cert = hf.Certificate.from_dict(json.loads((STORED / "certificate.json").read_text()))
    html = shown(cert)
    assert str(cert).split(";")[0] in html
    assert lines(html) == 2 * len(cert.curves)  # both sides
    assert lines(shown(cert.recompute(claims=("label",)))) == 0
    estimate = shown(cert.recompute(claims=("score",), method=hf.CDF(band=hf.Empirical())))
    assert "NOT a certificate" in estimate
    assert "score (estimate, not certified)" in estimate


def test_other_results_show_theirs(smoothed: hf.SmoothedClassifier) -> None:
    x = images(1)[0]
    classes = smoothed.certify_classes(x, n=400, alpha=0.01, seed=1)
    html = shown(classes)
    assert f"Class {classes.predicted}: for every perturbation up to radius 0.5" in html
    assert lines(html) == 4  # both sides of the predicted class and of its rival
    assert "overtake" in shown(smoothed.certify_classes(x, n=400, alpha=0.01, seed=1, claims=("gaps",)))
    decision = smoothed.decide(x, at_least=0.1, radius=0.01, n_max=1_000, seed=1)
    assert decision.reason in shown(decision)
    radius = smoothed.find_radius(x, at_least=0.1, n_max=500, seed=1)
    assert str(radius) in shown(radius)
    triage = hf.Triage.from_dict(json.loads((STORED / "triage.json").read_text()))
    assert lines(shown(triage)) == 2


def test_a_run_shows_a_line_for_each_threshold(tmp_path: Path) -> None:
    run = made_run(tmp_path / "mine", 9)
    html = shown(run)
    assert "Run mine: 9 inputs" in html
    assert lines(html) == len(run.thresholds("score"))


def test_a_strangers_names_are_shown_and_not_obeyed() -> None:
    x = np.array([0.0, 1.0])
    name = "<script>alert(1)</script>\x1b[2J"
    html = card(name, Chart([Line(name, x, x)], name, name, (0.0, 1.0), at=(0.5, name)))
    ElementTree.fromstring(html)
    assert html.count("&lt;script&gt;") == 7
    assert "<script" not in html
    assert "\x1b" not in html
    assert "<script" not in card(name, Bar(name, 1, 2))


def test_a_line_that_leaves_the_axes_keeps_its_direction() -> None:
    """Bent to the frame it would cross lower values than it has."""
    x = np.array([0.0, 1.0])
    inside, outside = (card("", Chart([Line("", x, np.array([0.0, top]))], "", "", (0.0, 1.0))) for top in (1.0, 2.0))
    ends = [re.findall(r"M([\d. -]+)\" style=\"stroke:var", html)[0].split() for html in (inside, outside)]
    (x0, y0, x1, y1), (*same, y2) = ([float(each) for each in end] for end in ends)
    assert same == [x0, y0, x1]
    assert y0 - y2 == pytest.approx(2 * (y0 - y1))
