"""The service and its page answer about whatever the served classifier counts, under whatever noise it adds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.measures import DEFAULT_MEASURES, Mass
from holdfast.noise import Uniform
from holdfast.scores.rounding import floor_decimals
from holdfast.service.questions import measure_of
from holdfast.service.service import Served
from holdfast.service.views import measure_view
from networks import images, small_net
from serving import SHAPE, Running, npy, running

MASS = Mass({1, 2})
X = images(1)[0]


def smoothed() -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net(), noise=Uniform(0.4), measures=(MASS,), inputs="images", compile=False)


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running(Served(smoothed(), SHAPE, "toy")) as found:
        yield found


def test_every_measure_can_be_claimed_and_decided_and_is_by_default(served: Running) -> None:
    everything = hf.Certificate.from_dict(served.certify(X, "n=500&seed=5").json())
    assert everything == smoothed().certify(X, n=500, seed=5)
    assert everything.claims == ("label", "score", "margin", "mass-1-2")
    one = hf.Certificate.from_dict(served.certify(X, "n=500&seed=5&claims=mass-1-2").json())
    assert one == smoothed().certify(X, n=500, seed=5, claims=("mass-1-2",))
    decision = served.decide(X, "at_least=0.2&radius=0.01&measure=mass-1-2&seed=5&n_max=2000").json()
    expected = smoothed().decide(X, at_least=0.2, radius=0.01, measure="mass-1-2", seed=5, n_max=2_000)
    assert (decision["certified"], decision["samples"]) == (expected.certified, expected.samples)
    assert decision["measure"] == "mass-1-2"
    assert decision["noise"] == {"kind": "uniform", "half_width": 0.4}


def test_what_is_not_counted_is_refused_with_what_is(served: Running) -> None:
    for answer in (
        served.certify(X, "n=500&claims=mass-3"),
        served.certify(X, "n=500&claims=score&claims=score"),
        served.decide(X, "at_least=0.2&radius=0.01&measure=mass-3"),
    ):
        assert answer.status_code == 422
        assert "score, margin, mass-1-2" in answer.json()["error"]
    infos = [measure.info for measure in (*DEFAULT_MEASURES, MASS)]
    assert hf.Settings(claims=("mass-1-2", "label")).resolved(infos, Uniform(0.4)).claims == ("label", "mass-1-2")
    assert measure_of(None, infos).name == "score"


def test_the_document_and_the_model_list_them(served: Running) -> None:
    paths = served.client.get("/openapi.json").json()["paths"]
    asked = {each["name"]: each["schema"] for each in paths["/v1/certify"]["post"]["parameters"]}
    known = ["label", "score", "margin", "mass-1-2"]
    assert [each["items"]["enum"] for each in asked["claims"]["anyOf"] if each["type"] == "array"] == [known]
    asked = {each["name"]: each["schema"] for each in paths["/v1/decide"]["post"]["parameters"]}
    assert [each["enum"] for each in asked["measure"]["anyOf"] if each["type"] == "string"] == [known[1:]]
    assert (asked["at_least"]["minimum"], asked["at_least"]["maximum"]) == (-1.0, 1.0)
    model = served.client.get("/v1/model").json()
    assert [each["title"] for each in model["measures"]] == ["score", "margin", "mass of classes 1, 2"]
    assert (model["noise"]["title"], model["noise"]["norm"]) == ("uniform noise, half-width 0.4", "l1")


def test_an_exported_certificate_is_read_with_all_its_measures(served: Running) -> None:
    cert = smoothed().certify(X, n=500, seed=5, claims=("mass-1-2",), sides="both")
    view = served.client.post("/v1/read", json=cert.to_dict()).json()
    score, margin, mass = view["measures"]
    assert (score["curve"], margin["curve"]) == (None, None)
    assert mass["curve"]["lower"] == cert.curve("mass-1-2").lower(np.array(view["radii"])).tolist()
    assert mass["curve"]["radius"] == cert.curve("mass-1-2").radius(at_least=mass["at_least"]).tolist()
    assert {sum(each["histogram"]) for each in view["measures"]} == {500}


def test_a_slider_offers_round_thresholds_inside_any_support() -> None:
    for support, found in (
        ((0.0, 1.0), (0.01, 0.99)),
        ((-1.0, 1.0), (-0.98, 0.98)),
        ((999.0, 1_000.0), (999.01, 999.99)),
    ):
        info = hf.measures.MeasureInfo("score", "a score", support, 0.5, (0.5,))
        offered = measure_view(info)["at_least"]
        assert (offered[0], offered[-1], len(offered)) == (*found, 99)


def test_the_page_offers_shows_and_asks_for_each(served: Running, chromium: Any, tmp_path: Path) -> None:
    complaints: list[str] = []
    page = chromium.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(served.url)
    page.wait_for_selector("#measure option", state="attached")
    assert page.locator("#measure option").all_inner_texts() == [
        "average score",
        "average margin",
        "average mass of classes 1, 2",
    ]
    assert "uniform noise, half-width 0.4" in page.inner_text("#model")
    page.select_option("#copies-wanted", "10000")
    page.select_option("#measure", "mass-1-2")
    path = tmp_path / "x.npy"
    path.write_bytes(npy(X))
    page.set_input_files("#file", path)
    page.wait_for_selector("#state.certified", timeout=60_000)
    with page.expect_download() as download:
        page.click("#export")
    download.value.save_as(tmp_path / "certificate.json")
    cert = hf.Certificate.from_dict(json.loads((tmp_path / "certificate.json").read_text()))
    assert cert.claims == ("label", "mass-1-2")
    page.locator("#radius").fill("10")
    lower = floor_decimals(cert.curve("mass-1-2").lower(0.04), 3)
    said = f"Class {cert.predicted}: within radius 0.04 nobody can push the average mass of classes 1, 2 below {lower}."
    assert page.inner_text("#sentence") == said
    assert "mass of classes 1, 2 of 10,000 copies" in page.inner_text("#histogram-words")
    page.select_option("#measure", "margin")
    assert "no alpha was spent" in page.inner_text("#sentence")
    assert page.locator("#chart path.lower").count() == 0
    page.click("#go")
    page.wait_for_selector("#state.certified", timeout=60_000)
    assert page.locator("#chart path.lower").count() == 1
    assert "average margin" in page.inner_text("#sentence")
    page.set_input_files("#file", tmp_path / "certificate.json")
    page.wait_for_selector('#state:text-is("from a file")')
    assert page.input_value("#measure") == "mass-1-2"
    page.check("input[value=question]")
    page.set_input_files("#file", path)
    # The button may still be that of the certificate before: the sentence says when the answer is there.
    page.wait_for_selector('#sentence:has-text("the average mass of classes 1, 2 below")', timeout=60_000)
    page.wait_for_selector("#export:enabled", timeout=60_000)
    assert complaints == []
    page.close()
