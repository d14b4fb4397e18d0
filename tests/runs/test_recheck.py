"""After a change of the network: what still holds, what it costs, what is refused, and what the ledger keeps."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import Tensor, nn

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.errors import ClaimsLost
from holdfast.runs.auditing import audit_run
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.claims import ClaimsAsked, claims_of
from holdfast.runs.execute import Plan, execute
from holdfast.runs.imported import import_log
from holdfast.runs.ledger import append_line, check_ledger
from holdfast.runs.recheck import recheck
from holdfast.runs.rechecked import Outcome
from holdfast.runs.resample import resample
from holdfast.runs.tsv import write_log
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import save_checkpoint
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.pretrained import load_embedded_model
from made_runs import made_run
from networks import Recorder, images, small_net

SIGMA = 0.2
RADII = (0.0, 0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    settings = hf.Settings(n=10_000, n0=50)
    out = tmp_path_factory.mktemp("runs") / "a"
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    return hf.certify_run(smoothed, images(8), np.zeros(8, dtype=np.int64), out=out, settings=settings, seed=1)


def smoothed(net: nn.Module | None = None) -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net() if net is None else net, SIGMA)


def test_the_same_network_holds_every_claim_at_a_tenth_of_the_copies(run: CertifiedRun) -> None:
    found = recheck(smoothed(), run, images(8), ClaimsAsked(RADII), seed=2)
    assert len(found.claims) + found.abstained + found.trivial == 16
    assert found.count(Outcome.HELD) == len(found.claims) > 8
    assert found.samples <= found.full / 10


def test_claims_agree_with_full_certificates_of_a_network_that_changed_a_little(run: CertifiedRun) -> None:
    net = small_net()
    with torch.no_grad():
        for weights in net.parameters():
            weights[weights.abs() < 0.02] = 0.0
    changed = smoothed(net)
    found = recheck(changed, run, images(8), ClaimsAsked(RADII), seed=2)
    full = changed.certify_many(images(8), n=10_000, n0=50, seed=3)
    agree = [
        (
            full[each.claim.index].predicted == each.claim.predicted
            and full[each.claim.index].score.lower(each.claim.radius) >= each.claim.at_least
        )
        == (each.outcome is Outcome.HELD)
        for each in found.claims
    ]
    assert all(agree)


def test_a_network_that_says_something_else_holds_nothing_and_costs_little(run: CertifiedRun) -> None:
    class Undecided(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            answer: Tensor = small_net()(x) / 50
            return answer

    found = recheck(smoothed(Undecided()), run, images(8), ClaimsAsked(RADII), seed=2)
    assert found.count(Outcome.REFUTED) == len(found.claims)
    assert found.samples < found.full / 20
    other = recheck(smoothed(small_net(seed=7)), run, images(8), ClaimsAsked(RADII), seed=2)
    changed = [each for each in other.claims if "predicts class" in each.reason]
    assert changed
    assert all(each.outcome is Outcome.REFUTED and each.samples == 0 for each in changed)


class HalfSpace(nn.Module):
    """Class 0 for sure where the first feature is below a threshold, and class 1 beyond: its averages have a closed form."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        sign = torch.where(x.flatten(1)[:, 0] < self.threshold, 100.0, -100.0)
        return torch.stack((sign, -sign), dim=1)


def test_false_claims_are_held_as_rarely_as_alpha_says(tmp_path: Path) -> None:
    inputs, alpha, radius = 180, 0.2, 0.1
    zeros = np.zeros((inputs, 1), dtype=np.float32)
    before, after = (hf.SmoothedClassifier(HalfSpace(SIGMA * z), SIGMA, inputs="any") for z in (1.5, 1.35))
    settings = hf.Settings(n=400, n0=20, alpha=alpha, claims=("score",))
    known = hf.certify_run(
        before, zeros, np.zeros(inputs, dtype=np.int64), out=tmp_path / "a", settings=settings, seed=1
    )
    found = recheck(after, known, zeros, ClaimsAsked((radius,), margin=0.0, share=1.0), seed=2)
    truth = float(ndtr(1.35 - radius / SIGMA))
    false = [each for each in found.claims if each.claim.at_least > truth]
    held = sum(each.outcome is Outcome.HELD for each in false)
    assert len(false) > 40
    assert held <= alpha * len(false)
    assert found.count(Outcome.HELD) > held  # true ones are


def test_claims_are_what_was_certified_if_all_copies_are_supposed(run: CertifiedRun) -> None:
    asked = ClaimsAsked(RADII, margin=0.02, share=1.0)
    certificates = {entry.index: entry.certificate for entry in run}
    for claim in claims_of(run, asked).claims:
        lower = certificates[claim.index].score.lower(claim.radius)
        assert claim.certified == lower
        assert lower - 0.0201 <= claim.at_least <= lower - 0.02
        assert claim.alpha == certificates[claim.index].alpha_per_claim
    fewer = {(claim.index, claim.radius): claim.at_least for claim in claims_of(run, replace(asked, share=0.1)).claims}
    assert all(fewer[claim.index, claim.radius] < claim.at_least for claim in claims_of(run, asked).claims)


def test_thinned_counts_are_those_of_fewer_copies_rounded_down() -> None:
    scores = hf.ScoreSamples(np.repeat([0.25, 0.5, 1.0], [1, 30, 69]), sigma=SIGMA).histogram()
    fewer = scores.thinned(10).survival_lower()
    assert fewer.n == 10
    assert fewer.counts.tolist() == [10, 9, 6]
    assert scores.thinned(100) == scores
    with pytest.raises(hf.InvalidArgument, match="at most 100"):
        scores.thinned(101)


def test_abstained_certificates_and_claims_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    made = made_run(tmp_path / "made", 30)
    found = claims_of(made, ClaimsAsked((0.0, 1.5), margin=0.0))
    silent = {entry.index for entry in made if entry.certificate.abstained}
    assert silent
    assert found.abstained == 2 * len(silent)
    assert not silent & {claim.index for claim in found.claims}
    assert found.trivial > 0
    assert all(claim.at_least > 0 for claim in found.claims)
    assert len(found.claims) + found.abstained + found.trivial == 60


def test_what_cannot_be_compared_is_refused_before_anything_is_sampled(run: CertifiedRun, tmp_path: Path) -> None:
    net = Recorder(small_net())
    with pytest.raises(hf.DatasetError, match="other images"):
        recheck(smoothed(net), run, images(8, seed=5))
    with pytest.raises(hf.DatasetError, match="other images and indices"):
        recheck(smoothed(net), run, images(7))
    with pytest.raises(hf.RunError, match=r"sigma = 0\.2, got"):
        recheck(hf.SmoothedClassifier(net, 0.3), run, images(8))
    with pytest.raises(hf.InvalidArgument, match="claims no average of 'label', only: score, margin"):
        recheck(smoothed(net), run, images(8), ClaimsAsked(measure="label"))
    with pytest.raises(hf.InvalidArgument, match="seed must not be the run's own"):
        recheck(smoothed(net), run, images(8), seed=1)
    with pytest.raises(hf.RunError, match="nothing to recheck"):
        recheck(smoothed(net), run, images(8), ClaimsAsked((5.0,)))
    with pytest.raises(hf.RunError, match="does not record which inputs"):
        recheck(hf.SmoothedClassifier(net, 0.25), made_run(tmp_path / "made", 3), images(3))
    write_log(tmp_path / "paper_score.tsv", made_run(tmp_path / "log", 3).log_of("score"))
    with pytest.raises(hf.InvalidArgument, match="is an imported log"):
        recheck(smoothed(net), import_log(tmp_path / "paper_score.tsv", tmp_path / "imported"), images(3))
    assert net.rows == []
    for wrong, said in (
        ({"radii": ()}, "radii"),
        ({"margin": -0.1}, "margin"),
        ({"share": 0}, "share"),
        ({"most": 0}, "most"),
    ):
        with pytest.raises(hf.InvalidArgument, match=said):
            ClaimsAsked(**wrong)


def test_the_command_says_what_holds_and_keeps_a_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, ledger = tmp_path / "a", tmp_path / "recheck.jsonl"
    data = ["--model", "fashion-mnist", "--data", "fashion-mnist"]
    assert holdfast(["certify", *data, "--sigma", "0.25", "--n", "1000", "--skip", "80", "--out", str(out)]) == 0
    capsys.readouterr()
    asked = ["recheck", str(out), *data, "--radii", "0,0.2", "--ledger", str(ledger)]
    assert holdfast([*asked, "--seed", "5"]) == 0
    text = capsys.readouterr().out
    assert "claims hold, with" in text
    assert holdfast([*asked, "--max", "3", "--require", "0.5"]) == 0
    first, second = map(json.loads, ledger.read_text().splitlines())
    assert first["claims"] == first["held"] + first["refuted"] + first["undecided"] > second["claims"] == 6
    assert first["radii"] == [0.0, 0.2]
    assert first["model"] == {"name": "fashion-mnist", "fingerprint": hf.Run.open(out).fingerprint}
    assert first["data"]["images"] == json.loads((out / "run.json").read_text())["fingerprints"]["images"]
    assert "seed" not in json.dumps(first)

    architecture = Architecture("small-cnn", 1, 28, 10)
    save_checkpoint(tmp_path / "other.safetensors", architecture.build(), architecture, {})
    capsys.readouterr()
    asked[asked.index("--model") + 1] = str(tmp_path / "other.safetensors")
    assert holdfast(asked) == ClaimsLost.exit_code
    assert "0 of " in capsys.readouterr().err
    assert json.loads(ledger.read_text().splitlines()[-1])["held"] == 0


def test_the_command_finds_inputs_that_were_spread_over_the_data_as_the_demos_are(tmp_path: Path) -> None:
    spread = load_fashion_mnist().every(166, 3)
    certified = hf.SmoothedClassifier(load_embedded_model().net, 0.25)
    execute(certified, Plan(spread, hf.Settings(n=300, n0=20), tmp_path / "a"))
    asked = ["recheck", str(tmp_path / "a"), "--model", "fashion-mnist", "--data", "fashion-mnist", "--require", "0"]
    assert holdfast(asked) == 0


@pytest.mark.parametrize(
    "left", ['{"held": 1}', '{"held": 1}\n{"hel', '{"held": 1}\nnotes\n', "[1]\n", "\n", b"\xff\n"]
)
def test_a_ledger_with_a_broken_last_line_is_refused_and_left_as_it_is(tmp_path: Path, left: str | bytes) -> None:
    ledger = tmp_path / "recheck.jsonl"
    content = left if isinstance(left, bytes) else left.encode()
    ledger.write_bytes(content)
    with pytest.raises(hf.RunError, match=r"last line of .* restore the file from version control"):
        append_line(ledger, {"held": 2})
    assert ledger.read_bytes() == content


def test_a_ledger_grows_by_whole_lines_and_is_never_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "recheck.jsonl"
    append_line(ledger, {"held": 1})
    append_line(ledger, {"held": 2})
    assert ledger.read_text() == '{"held": 1}\n{"held": 2}\n'
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:4]))  # a full disk takes a part
    with pytest.raises(hf.RunError, match="no space left"):
        append_line(ledger, {"held": 3})
    assert ledger.read_text() == '{"held": 1}\n{"held": 2}\n'
    with pytest.raises(hf.RunError, match=r"folder of .* does not exist"):
        check_ledger(tmp_path / "nowhere" / "recheck.jsonl")
    with pytest.raises(hf.RunError, match="is not a file"):
        check_ledger(tmp_path)


def test_wrong_objects_are_refused_in_words(tmp_path: Path) -> None:
    zeros = np.zeros((4, 1), dtype=np.float32)
    smoothed = hf.SmoothedClassifier(HalfSpace(SIGMA), SIGMA, inputs="any")
    settings = hf.Settings(n=400, n0=20, claims=("score",))
    run = hf.certify_run(smoothed, zeros, np.zeros(4, dtype=np.int64), out=tmp_path / "a", settings=settings)
    for call in (recheck, audit_run):
        with pytest.raises(hf.InvalidArgument, match="got HalfSpace and CertifiedRun"):
            call(HalfSpace(SIGMA), run, zeros)  # type: ignore[arg-type]
        with pytest.raises(hf.InvalidArgument, match="got SmoothedClassifier and str"):
            call(smoothed, "runs/a", zeros)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidArgument, match="expected a SmoothedClassifier"):
        hf.attack(HalfSpace(SIGMA), zeros[0], 0.1)  # type: ignore[arg-type]
    assert not resample(run, smoothed, zeros, inputs=2).problems, "an array will do"
    with pytest.raises(hf.InvalidArgument, match="one input per row"):
        resample(run, smoothed, 3, inputs=2)  # type: ignore[arg-type]
