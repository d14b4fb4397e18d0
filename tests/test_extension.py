"""The extension drill: a noise, a model and a measure of a contributor's own, through everything that Holdfast does."""

import inspect
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import holdfast as hf
from holdfast.report.accuracy import Question, as_json
from holdfast.report.axis import radius_axis
from holdfast.report.page import write_page
from holdfast.report.text import print_report
from holdfast.runs.certified import CertifiedRun
from holdfast.service.service import Served
from networks import images
from serving import SHAPE, npy, running
from toys import Agreement, NearestPrototype, TotalVariation

NOISE, N = TotalVariation(0.3), 600
XS = images(6)
LABELS = [0, 1, 2, 0, 1, 2]


def toy_classifier() -> hf.SmoothedClassifier:
    model = NearestPrototype(images(3, seed=9))
    return hf.SmoothedClassifier(model, noise=NOISE, measures=(Agreement(),), inputs="images")


@pytest.mark.parametrize("toy", [TotalVariation, NearestPrototype, Agreement])
def test_each_is_written_in_under_sixty_lines(toy: type) -> None:
    assert len(inspect.getsource(toy).splitlines()) < 60


def test_a_certificate_has_the_measure_under_the_noise_whatever_the_batch_and_the_threads(two_threads: None) -> None:
    smoothed = toy_classifier()
    cert = smoothed.certify(XS[0], n=N, seed=1, sides="both")
    assert cert.claims == ("label", "score", "margin", "agreement")
    assert "the average agreement of two draws stays at least" in str(cert)
    assert NOISE.title in str(cert)
    assert cert.provenance.noise == "test-total-variation/philox4x64-10"
    assert hf.Certificate.from_dict(json.loads(json.dumps(cert.to_dict()))) == cert
    torch.set_num_threads(1)
    for batch in (8, 64, 1_000):
        assert smoothed.certify(XS[0], n=N, seed=1, sides="both", batch=batch) == cert


def test_the_certificate_agrees_with_a_plain_loop() -> None:
    smoothed = toy_classifier()
    cert = smoothed.certify(XS[0], n=20_000, seed=1)
    noisy = XS[0] + NOISE.scale * np.random.default_rng(0).standard_normal((20_000, *SHAPE), dtype=np.float32)
    probabilities = smoothed.model.probabilities(torch.from_numpy(noisy))
    agreement = probabilities.square().sum(1).double().numpy()
    scores = hf.ScoreSamples(np.clip(agreement, 0, 1), noise=NOISE)
    radii = np.array([0.0, 0.05, 0.1])
    plain = hf.bound(scores, alpha=cert.alpha_per_claim).lower(radii)
    assert cert.curve("agreement").lower(radii) == pytest.approx(plain, abs=0.01)
    # No attack within the radius goes below the bound.
    moved = noisy + np.float32(0.1 / 6)  # l2 distance 0.1 over 36 pixels
    attacked = smoothed.model.probabilities(torch.from_numpy(moved)).square().sum(1).double().mean()
    assert cert.curve("agreement").lower(0.1) <= float(attacked) + 0.01


def test_early_stopping_and_the_search_for_a_radius_take_them() -> None:
    smoothed = toy_classifier()
    cert = smoothed.certify(XS[0], n=20_000, seed=1)
    low = cert.curve("agreement").lower(0.05)
    certified = smoothed.decide(XS[0], at_least=low - 0.05, radius=0.05, measure="agreement", seed=2, n_max=20_000)
    refused = smoothed.decide(XS[0], at_least=low + 0.2, radius=0.05, measure="agreement", seed=2, n_max=20_000)
    assert certified.certified
    assert not refused.certified
    assert max(certified.samples, refused.samples) < 20_000
    found = smoothed.find_radius(XS[0], at_least=low - 0.05, measure="agreement", seed=2, n_max=20_000)
    assert found.radius >= 0.04


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    out = tmp_path_factory.mktemp("toys") / "run"
    return hf.certify_run(toy_classifier(), XS, LABELS, out=out, settings=hf.Settings(n=N, n0=20), seed=5)


def test_a_run_on_disk_is_read_back_whole(run: CertifiedRun) -> None:
    again = hf.Run.open(run.path)
    assert isinstance(again, CertifiedRun)
    assert again.noise == NOISE
    assert again.measures == ("label", "score", "margin", "agreement")
    assert again.fingerprint == toy_classifier().fingerprint
    for entry in again:
        assert entry.certificate == toy_classifier().certify(XS[entry.index], n=N, n0=20, seed=5, index=entry.index)


def test_an_interrupted_run_is_resumed_and_another_noise_is_another_question(run: CertifiedRun, tmp_path: Path) -> None:
    class Interrupted(hf.SmoothedClassifier):
        def stream(self, *given: object, **options: object):  # type: ignore[no-untyped-def]
            for count, certificate in enumerate(super().stream(*given, **options)):  # type: ignore[arg-type]
                if count == 3:
                    raise KeyboardInterrupt
                yield certificate

    asked = {"out": tmp_path / "a", "settings": hf.Settings(n=N, n0=20), "seed": 5}
    first = Interrupted(NearestPrototype(images(3, seed=9)), noise=NOISE, measures=(Agreement(),), inputs="images")
    with pytest.raises(KeyboardInterrupt):
        hf.certify_run(first, XS, LABELS, **asked)  # type: ignore[arg-type]
    assert len(hf.Run.open(tmp_path / "a")) == 3
    other = toy_classifier()
    other.noise = replace(NOISE, width=0.4)
    with pytest.raises(hf.RunError, match=r"the noise is total variation of width 0.3 there and .* 0.4 here"):
        hf.certify_run(other, XS, LABELS, **asked)  # type: ignore[arg-type]
    resumed = hf.certify_run(toy_classifier(), XS, LABELS, **asked)  # type: ignore[arg-type]
    assert [entry.certificate for entry in resumed] == [entry.certificate for entry in run]


def test_the_report_shows_them_as_text_json_and_html(run: CertifiedRun, tmp_path: Path) -> None:
    said = StringIO()
    print_report([run], Question(), Console(file=said, width=160))
    assert "agreement > 0.8" in said.getvalue()
    assert NOISE.title in said.getvalue()
    rows = as_json([run], Question())["runs"][0]["certified_accuracy"]
    assert {row["threshold"] for row in rows if row["measure"] == "agreement"} == {0.5, 0.8}
    axis = radius_axis([run], Question())
    page = write_page([run], Question(), axis, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "agreement of two draws" in page
    assert NOISE.title in page


def test_the_service_answers_with_them() -> None:
    with running(Served(toy_classifier(), SHAPE, "toy")) as found:
        answer = found.certify(XS[0], "n=600&seed=5&claims=agreement&claims=label").json()
        assert hf.Certificate.from_dict(answer) == toy_classifier().certify(
            XS[0], n=N, seed=5, claims=("label", "agreement")
        )
        decided = found.decide(XS[0], "at_least=0.2&radius=0.01&measure=agreement&seed=5&n_max=2000").json()
        assert decided["noise"] == {"kind": "test-total-variation", "width": 0.3}
        body = {"content": npy(XS[0]), "headers": {"Content-Type": "application/x-npy"}}
        with found.client.stream("POST", "/v1/certify/stream?n=2000", **body) as stream:  # type: ignore[arg-type]
            events = [json.loads(line) for line in stream.iter_lines()]
        assert events[-1]["event"] == "done"
        shown = {each["name"]: each for each in events[-1]["view"]["measures"]}
        assert shown["agreement"]["title"] == "agreement of two draws"


def probit(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    first = torch.special.ndtr(x.flatten(1).double() @ weights + 0.4)
    return torch.stack((first, 1 - first), 1)


class Probit(hf.Model):
    """The closed form's classifier as a model of its own."""

    name, device = "Probit", torch.device("cpu")

    def probabilities(self, batch: torch.Tensor) -> torch.Tensor:
        return probit(batch, torch.tensor([1.0, -2.0], dtype=torch.float64)).float()


class Thrice(nn.Module):
    """The same as a module."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return probit(x, torch.tensor([1.0, -2.0], dtype=torch.float64))


MODELS = {
    "a model": Probit,
    "a module": Thrice,
    "a function of tensors": lambda: hf.CallableModel(Thrice().forward, arrays="torch"),
    "a function of arrays": lambda: lambda rows: Thrice()(torch.from_numpy(rows)).numpy(),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_is_certified_below_the_closed_form_and_near_it(kind: str) -> None:
    x, radii = np.array([0.3, 0.1], dtype=np.float32), np.array([0.0, 0.1, 0.25, 0.5])
    smoothed = hf.SmoothedClassifier(MODELS[kind](), 0.5, outputs="probabilities")  # type: ignore[operator]
    cert = smoothed.certify(x, n=20_000, seed=3)
    truth = hf.ProbitModel([1.0, -2.0], 0.4).worst_case(x, 0.5, radii)
    assert (cert.score.lower(radii) <= truth).all()
    assert (truth - cert.score.lower(radii) < 0.05).all()
