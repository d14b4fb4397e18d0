"""Audits: an honest run passes, a run that promises too much does not, and nothing else on disk is touched."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.errors import AuditFailed, RunError
from holdfast.runs.auditing import AuditPlan, audit_run
from made_runs import made_run, unsealed
from networks import images, small_net

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EMBEDDED = ["--model", "fashion-mnist", "--data", "fashion-mnist"]
QUICK = ["--steps", "4", "--copies", "4", "--restarts", "1", "--n", "400", "--seed", "3"]
PLAN = AuditPlan(radii=(0.1, 0.3), n=2_000, attack=hf.Attack(steps=5), seed=1)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "a"
    options = ["--sigma", "0.25", "--n", "1000", "--skip", "50", "--max", "6", "--seed", "0x5"]
    assert holdfast(["certify", *EMBEDDED, "--out", str(out), *options]) == 0
    return out


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "audit.parquet")
    return {str(path): path.read_bytes() for path in files}


def test_an_honest_run_passes_and_is_left_as_it_was(certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(certified)
    assert holdfast(["audit", str(certified), *EMBEDDED, *QUICK, "--radii", "0.25,0.5"]) == 0
    said = capsys.readouterr().out
    assert "0 violations; 12 attacked inputs, 400 fresh noisy copies each" in said
    assert "on average at most 0.006 among 6 inputs" in " ".join(said.split())
    assert contents(certified) == before
    audit = hf.Run.open(certified).audit
    assert audit is not None
    for row in audit.rows():
        assert row.certified < row.attacked < row.clean
        assert (row.inputs, row.violations) == (6, 0)
    assert audit.notes.level == pytest.approx(0.001 / (6 * 2 * 2))
    assert "on average at most 0.001 among 1 input;" in replace(audit.notes, inputs=1).by_chance
    assert (audit.column("distance") <= audit.column("radius")).all()
    assert (audit.column("attacked", "margin") < audit.column("upper", "margin")).all()


def test_a_second_audit_replaces_the_first(certified: Path) -> None:
    assert holdfast(["audit", str(certified), *EMBEDDED, *QUICK, "--radii", "0.1", "--max", "2"]) == 0
    audit = hf.Run.open(certified).audit
    assert audit is not None
    assert audit.column("index").tolist() == [0, 1000]
    assert audit.column("radius").tolist() == [0.1, 0.1]


def test_every_change_of_an_audit_is_found_by_verify(certified: Path, tmp_path: Path) -> None:
    assert holdfast(["audit", str(certified), *EMBEDDED, *QUICK, "--radii", "0.1", "--max", "2"]) == 0
    run, path = hf.Run.open(certified), certified / "audit.parquet"
    assert run.verify().ok
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    audit = run.audit
    assert audit is not None
    read = (audit.notes, audit.table.to_pydict())
    for place in rng.integers(8 * len(whole), size=150):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        if run.verify().ok:  # then nothing that is read was changed
            audit = run.audit
            assert audit is not None
            assert (audit.notes, audit.table.to_pydict()) == read
    path.write_bytes(whole)
    other = audit.table.set_column(
        audit.table.column_names.index("score_certified"), "score_certified", pa.array([0.99, 0.99])
    )
    replace(audit, table=other).write(run.folder)
    assert run.verify().problems == ("audit.parquet has other bounds on the score than the counts give",)
    path.write_bytes(whole)


def test_a_bound_that_forgets_the_radius_is_caught(
    certified: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(certified)
    monkeypatch.setattr(hf.Gaussian, "decay", lambda _, p: lambda _: p)
    assert holdfast(["audit", str(certified), *EMBEDDED, *QUICK, "--radii", "1"]) == AuditFailed.exit_code
    captured = capsys.readouterr()
    assert "violation: input 5000, radius 1: the average margin is certified to be at least 0.9" in captured.out
    assert "are contradicted by attacks" in captured.err
    assert contents(certified) == before


class Answers(hf.Model):
    """A network whose answers may be surer when it is certified than when it is audited."""

    name = "Answers"
    device = torch.device("cpu")

    def __init__(self, sharpness: float) -> None:
        self._net, self._sharpness = small_net(), sharpness

    def probabilities(self, batch: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = (self._sharpness * self._net(batch)).softmax(1)
        return answer

    def fingerprint(self) -> str:
        return "the same"


@pytest.mark.parametrize(("sharpness", "caught"), [(1.0, False), (4.0, True)])
def test_counts_that_are_better_than_the_network_are_caught(tmp_path: Path, sharpness: float, caught: bool) -> None:
    xs = images(6)
    boasting, honest = (hf.SmoothedClassifier(Answers(sharp), 0.25) for sharp in (sharpness, 1.0))
    run = hf.certify_run(boasting, xs, np.zeros(6, np.int64), out=tmp_path / "a", settings=hf.Settings(n=2_000), seed=1)
    if caught:
        with pytest.raises(RunError, match="another network: on the rows of its spot check"):
            audit_run(honest, run, xs, PLAN)
    (unsealed(run.path) / "spot_check.npz").unlink()
    audit = audit_run(honest, hf.Run.open(run.path), xs, PLAN)
    assert bool(audit.violations) == caught
    assert not audit.notes.gradients
    stored = hf.Run.open(tmp_path / "a").audit
    assert stored is not None
    assert stored.violations == audit.violations
    assert stored.notes == audit.notes


def test_an_attack_on_a_tight_certificate_raises_no_alarm(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(size=30) / 4
    xs = rng.normal(size=(15, 30)).astype(np.float32) + weights.astype(np.float32)
    smoothed = hf.SmoothedClassifier(hf.ProbitModel(weights), 0.5, outputs="probabilities")
    settings = hf.Settings(n=3_000, claims=("score",))
    run = hf.certify_run(smoothed, xs, np.zeros(15, np.int64), out=tmp_path / "a", settings=settings, seed=1)
    plan = AuditPlan(radii=(0.2, 0.5), n=3_000, seed=1, attack=hf.Attack(steps=4, copies=4, restarts=1))
    audit = audit_run(smoothed, run, xs, plan)
    assert not audit.violations
    for row in audit.rows():
        assert row.certified < row.attacked < row.certified + 0.06


def other_network(certified: Path) -> None:
    net = hf.SmoothedClassifier(small_net(), 0.25)
    audit_run(net, hf.Run.open(certified), np.zeros((6, 1, 28, 28), dtype=np.float32))


def other_noise(certified: Path) -> None:
    from holdfast.zoo.pretrained import load_embedded_model

    net = hf.SmoothedClassifier(load_embedded_model().net, 0.5)
    audit_run(net, hf.Run.open(certified), np.zeros((6, 1, 28, 28), dtype=np.float32))


@pytest.mark.parametrize(
    ("audited", "words"), [(other_network, "is about another network"), (other_noise, "is about another noise")]
)
def test_another_classifier_is_refused(certified: Path, audited: Callable[[Path], None], words: str) -> None:
    before = contents(certified)
    with pytest.raises(RunError, match=words):
        audited(certified)
    assert contents(certified) == before


def test_other_data_and_imported_logs_are_refused(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    data, log = tmp_path / "other.npz", tmp_path / "label_sigma0.25.tsv"
    np.savez(data, images=rng.integers(0, 256, (9, 28, 28), dtype=np.uint8), labels=np.zeros(9, dtype=np.int64))
    assert holdfast(["audit", str(certified), "--model", "fashion-mnist", "--data", str(data)]) == 6
    assert "give the run's own data" in capsys.readouterr().err
    assert holdfast(["export", str(certified), "--measure", "label", "--out", str(log)]) == 0
    assert holdfast(["import", str(log), "--out", str(tmp_path / "log")]) == 0
    assert holdfast(["audit", str(tmp_path / "log"), *EMBEDDED]) == 2
    assert "is an imported log, not certificates of a network" in capsys.readouterr().err


def test_a_damaged_audit_is_refused_in_words(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 3)
    (run.path / "audit.parquet").write_bytes(b"nothing")
    with pytest.raises(RunError, match="make it again with 'holdfast audit', or remove it"):
        _ = run.audit


def test_reports_show_the_band_between_certificate_and_attack(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], chromium: "Browser"
) -> None:
    assert holdfast(["audit", str(certified), *EMBEDDED, *QUICK, "--radii", "0.2,0.4"]) == 0
    capsys.readouterr()
    assert holdfast(["report", str(certified), "--figures", str(tmp_path)]) == 0
    assert "audit: 0 violations; 12 attacked inputs" in capsys.readouterr().out
    assert (tmp_path / "certified_and_attacked_score.png").is_file()
    assert (tmp_path / "certified_and_attacked_margin.svg").is_file()
    assert holdfast(["report", str(certified), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"][0]["audit"]
    audit = hf.Run.open(certified).audit
    assert audit is not None
    assert [row["attacked"] for row in found["averages"]] == [row.attacked for row in audit.rows()]
    assert "seed" not in found
    page = chromium.new_page()
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#run-0-input-1000")
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#audit-table tbody tr").count() == 2
    # Each slider stands at the noise's scale, 0.25: the attack within that is the one at 0.2.
    assert page.locator("#attacked figcaption").text_content() == "this is what 0.2 looks like"
    pair = (audit.column("index") == 1000) & (audit.column("radius") == 0.2)
    score = audit.column("attacked", "score")[pair].item()
    assert f"the average score down to {np.ceil(score * 1000) / 1000:.3f}" in str(
        page.locator("#attack-words").text_content()
    )
    page.close()
