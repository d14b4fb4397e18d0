"""Verifying a run: whatever happens to its files is found, and what is true passes."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import holdfast as hf
from edited_runs import edit_cell, edit_value, files_of, flip_bit, leaf, leaves, resealed, restored, set_leaf
from holdfast.certificates.evidence import SCORE_UNIT, Selection
from holdfast.certificates.settings import Settings
from holdfast.cli.app import run as command
from holdfast.errors import NotVerified
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.compact import compact_run
from holdfast.runs.compatibility import histogram_p_value, selection_p_value, votes_p_value
from holdfast.runs.execute import Plan, execute
from holdfast.runs.folder import RunFolder
from holdfast.runs.imported import import_log
from holdfast.runs.resample import data_check, network_check, resample
from holdfast.runs.signature import signer
from holdfast.runs.verify import verify
from holdfast.zoo.datasets.labelled import LabelledInputs
from made_runs import made_run, unsealed
from networks import images, small_net

SIGMA = 0.2
DATA = LabelledInputs("toys", images(6), np.arange(6) % 4, 20 * np.arange(6))


def smoothed(seed: int = 0) -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net(seed=seed), SIGMA)


def certified(out: Path, **more: Any) -> CertifiedRun:
    return execute(smoothed(), Plan(DATA, Settings(n=400, n0=30), out, 3, **more))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key and its public half, and another public one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / f"{name}-public.pem").write_bytes(public)
    return folder


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    return certified(tmp_path_factory.mktemp("runs") / "signed", sign=signer(keys / "own.pem")).path


@pytest.fixture
def run(signed: Path) -> Any:
    """A signed run; whatever a test does to it is undone."""
    with restored(signed) as path:
        yield path


def part(run: Path) -> Path:
    return sorted(run.glob("certificates/part-*.parquet"))[-1]


def problems(run: Path, **more: Any) -> str:
    return "\n".join(verify(run, **more).problems)


def test_an_untouched_run_passes(run: Path, keys: Path, tmp_path: Path) -> None:
    assert verify(run, key=keys / "own-public.pem").ok
    opened = hf.Run.open(run)
    assert opened.verify().ok
    assert all(check.made for check in opened.verify().checks)
    assert compact_run(opened, tmp_path / "small").verify().ok
    for measure in ("label", "margin"):
        log = opened.folder.path / "exports" / ("cohen.tsv" if measure == "label" else "paper_margin.tsv")
        assert import_log(log, tmp_path / measure, sigma=SIGMA).verify().ok


def test_a_run_of_0_1_0_is_checked_as_far_as_it_can_be(run: Path) -> None:
    found = verify(unsealed(run))
    assert found.ok
    assert "no manifest: digests cannot be checked" in str(found)
    set_leaf(run / "run.json", ("alpha",), 0.01)
    assert "label_radius does not follow from the counts" in problems(run)


def test_single_edits_of_every_file_are_found(run: Path, keys: Path) -> None:
    rng = np.random.default_rng(1)
    for path in files_of(run):
        for _ in range(4):
            with restored(run):
                said = edit_value(path, rng)
                assert not verify(run, key=keys / "own-public.pem").ok, said


def test_values_of_other_types_are_problems_and_never_stop_the_others(run: Path) -> None:
    for place in leaves(json.loads((run / "run.json").read_text())):
        with restored(run):
            set_leaf(run / "run.json", place, [{"b": -2.5}])
            assert "run.json was changed" in RunFolder(run).changes()[0], place
            resealed(run)
            assert len(verify(run).checks) >= 3, place


def test_flipped_bits_of_every_file_are_found(run: Path, keys: Path) -> None:
    rng = np.random.default_rng(3)
    for path in files_of(run):
        for _ in range(4):
            with restored(run):
                said = flip_bit(path, rng)
                assert not verify(run, key=keys / "own-public.pem").ok, said
                if path.suffix != ".sig":
                    with pytest.raises(hf.HoldfastError):
                        hf.Run.open(run)


FORGED: dict[tuple[Any, ...], tuple[Any, str]] = {
    ("alpha",): (0.01, "label_radius does not follow"),
    ("sigma",): (0.3, "noise and sigma must agree"),
    ("noise", "sigma"): (0.3, "noise and sigma must agree"),
    ("method",): ("cdf-dkw", "score_lower_at_0 does not follow"),
    ("sides",): ("both", "score_lower_at_0 does not follow"),
    ("claims",): (["label", "score"], "margin_lower_at_0 does not follow"),
    ("n",): (401, "the number of copies is not run.json's"),
    ("inputs",): (7, "run.json says 7 inputs, and there are 6"),
    ("status",): ("done", "status 'done'"),
    ("kind",): ("certain", "kind 'certain'"),
    ("format",): (2, "format 2"),
    ("created",): ("yesterday", "yesterday"),
    ("compile",): ("yes", "compile"),
    ("label_names",): ([3], "list of words"),
    ("measures", 0, "winning"): (0.99999, "describes the score"),
    ("measures", 1, "support"): ([-1.0, 2.0], "describes the margin"),
    ("provenance", "seed"): ("0x", "invalid literal"),
    ("provenance", "model"): (3, "model"),
    ("fingerprints", "weights"): ("abc", "fingerprint of the weights"),
    ("fingerprints", "labels"): ("0" * 64, "the labels of the inputs"),
    ("fingerprints", "indices"): ("0" * 64, "the indices of the inputs"),
}


@pytest.mark.parametrize("place", FORGED, ids=lambda place: ".".join(map(str, place)))
def test_a_configuration_that_contradicts_the_rest_is_found_without_digests(run: Path, place: tuple[Any, ...]) -> None:
    new, said = FORGED[place]
    assert leaf(run / "run.json", place) != new
    set_leaf(run / "run.json", place, new)
    resealed(run)
    assert said in problems(run)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("index", "the indices of the inputs"),
        ("label", "the labels of the inputs"),
        ("predicted", "exports/cohen.tsv is not what the counts give"),
        ("abstained", "abstained does not follow from the counts"),
        ("n", "the number of copies is not run.json's"),
        ("votes", "the votes do not fit the margins"),
        ("label_radius", "label_radius does not follow from the counts"),
        ("score_lower_at_0", "score_lower_at_0 does not follow from the counts"),
        ("margin_lower_at_0", "margin_lower_at_0 does not follow from the counts"),
        ("bins", "the histogram's bins are others"),
        ("score_counts", "the score is no histogram of n copies"),
        ("margin_counts", "the margin is no histogram of n copies"),
        ("seconds", "exports/cohen.tsv is not what the counts give"),
    ],
)
def test_a_row_that_contradicts_the_rest_is_found_without_digests(run: Path, column: str, said: str) -> None:
    answered = pq.read_table(part(run), columns=["abstained"]).column(0).to_pylist().index(False)
    edit_cell(part(run), column, answered, np.random.default_rng(4))
    resealed(run)
    assert said in problems(run)


def test_what_is_forged_consistently_is_found_by_the_signature(run: Path, keys: Path) -> None:
    set_leaf(run / "run.json", ("data",), "others")
    resealed(run)
    assert verify(run).ok
    assert "no signature of manifest.json with this key" in problems(run, key=keys / "own-public.pem")


def test_a_part_that_is_missing_foreign_or_copied_is_refused(run: Path) -> None:
    with restored(run):
        part(run).unlink()
        with pytest.raises(hf.RunError, match=r"not as it was written: certificates/part-\d+\.parquet is missing"):
            hf.Run.open(run)
        assert "and there are" in problems(run)
    shutil.copy(part(run), run / "certificates" / "part-00099.parquet")
    with pytest.raises(hf.RunError, match=r"part-00099\.parquet is not in manifest\.json: it was added later"):
        hf.Run.open(run)
    assert "an input is there twice" in problems(run)


def test_every_file_that_is_missing_is_named(run: Path, keys: Path) -> None:
    for path in files_of(run):
        with restored(run):
            path.unlink()
            assert path.name in problems(run, key=keys / "own-public.pem")
            if path.suffix != ".sig":
                with pytest.raises(hf.RunError):
                    hf.Run.open(run)


def test_pages_have_checksums_of_their_own(run: Path) -> None:
    """Without digests, a flip in a run's numbers is still not read as other numbers."""
    unsealed(run)
    own, changed = [entry.certificate for entry in CertifiedRun(RunFolder(run))], 0
    rng = np.random.default_rng(5)
    for _ in range(40):
        with restored(run):
            flip_bit(part(run), rng)
            try:
                changed += [entry.certificate for entry in CertifiedRun(RunFolder(run))] != own
            except (hf.HoldfastError, OSError):
                continue
    assert changed == 0


def test_an_abstention_is_decided_by_the_counts_and_not_by_its_column(tmp_path: Path) -> None:
    made = made_run(tmp_path / "a", 8)
    before = made.answers.abstained
    assert 0 < before.sum() < 8
    for row in range(8):
        edit_cell(part(made.path), "abstained", row, np.random.default_rng(0))
    assert np.array_equal(CertifiedRun(RunFolder(made.path)).answers.abstained, before)


def test_a_signature_is_by_one_key_and_only_there_if_asked_for(run: Path, keys: Path, tmp_path: Path) -> None:
    assert "no signature" in problems(run, key=keys / "other-public.pem")
    plain = certified(tmp_path / "a")
    signature = (run / "manifest.sig").read_bytes()
    (run / "manifest.sig").write_bytes(signature.upper())
    assert "no signature" in problems(run, key=keys / "own-public.pem")
    assert "manifest.sig is missing" in problems(plain.path, key=keys / "own-public.pem")
    assert command(["verify", str(plain.path), "--sign", str(keys / "other.pem")]) == 0
    assert verify(plain.path, key=keys / "other-public.pem").ok
    for wrong in (keys / "own.pem", keys / "none.pem", part(run)):
        with pytest.raises(hf.InvalidArgument, match="public Ed25519 key"):
            verify(run, key=wrong)
    with pytest.raises(hf.InvalidArgument, match="openssl genpkey"):
        signer(keys / "own-public.pem")


def test_a_missing_extra_is_named(run: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(hf.InvalidArgument, match=r"this needs cryptography.*\[sign\]"):
        verify(run, key=keys / "own-public.pem")
    assert verify(run).ok


def test_a_signature_of_another_key_is_never_replaced(
    run: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signature = (run / "manifest.sig").read_bytes()
    for key in ([], ["--key", str(keys / "own-public.pem")]):
        assert command(["verify", str(run), *key, "--sign", str(keys / "other.pem")]) == hf.RunError.exit_code
        assert "a signature already that is not by this key" in " ".join(capsys.readouterr().err.split())
        assert (run / "manifest.sig").read_bytes() == signature
    assert command(["verify", str(run), "--sign", str(keys / "own.pem")]) == 0  # the same signature again
    (run / "manifest.sig").unlink()
    assert command(["verify", str(run), "--sign", str(keys / "other.pem")]) == 0
    assert (run / "manifest.sig").read_bytes() != signature


def test_a_wrong_run_is_not_signed(run: Path, keys: Path) -> None:
    set_leaf(run / "run.json", ("data",), "others")
    signature = (run / "manifest.sig").read_bytes()
    assert command(["verify", str(run), "--sign", str(keys / "other.pem")]) == NotVerified.exit_code
    assert (run / "manifest.sig").read_bytes() == signature


def test_the_command_lists_checks_and_problems(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["verify", str(run)]) == 0
    assert "run.json: ok" in capsys.readouterr().out
    edit_cell(part(run), "votes", 0, np.random.default_rng(0))
    assert command(["verify", str(run), "--format", "json"]) == NotVerified.exit_code
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert any("was changed" in said for said in found["checks"][0]["problems"])
    assert command(["verify", str(run), "--resample", "3"]) == hf.InvalidArgument.exit_code


def test_the_command_compares_network_and_data_and_draws_fresh_noise(
    tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--model", "fashion-mnist", "--data", "fashion-mnist"]
    question = ["--sigma", "0.25", "--n", "200", "--n0", "10", "--skip", "40", "--max", "3"]
    out = str(tmp_path / "a")
    assert command(["certify", *own, *question, "--out", out, "--sign", str(keys / "own.pem")]) == 0
    capsys.readouterr()
    given = ["verify", out, "--key", str(keys / "own-public.pem"), *own, "--resample", "2", "--format", "json"]
    assert command(given) == 0
    made = [check["name"] for check in json.loads(capsys.readouterr().out)["checks"]]
    assert made == [
        *("digests", "signature", "configuration", "rows", "exports", "spot-check"),
        "data",
        "network",
        "resample",
    ]


def killed(monkeypatch: pytest.MonkeyPatch, at: str, out: Path, again: Callable[[], object]) -> None:
    """Certify again, and be killed before a file of that name is written for the last time."""
    write = RunFolder.write

    def stop(self: RunFolder, name: str, *args: Any, **more: Any) -> Path:
        if name == at and (out / "exports" / "cohen.tsv").exists():
            raise SystemExit
        return write(self, name, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", stop)
        with pytest.raises(SystemExit):
            again()


@pytest.mark.parametrize("at", ["manifest.json", "manifest.sig", "run.json"])
def test_a_run_killed_while_it_is_sealed_is_not_finished_and_goes_on(
    at: str, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, sign = tmp_path / "a", signer(keys / "own.pem")
    killed(monkeypatch, at, out, lambda: certified(out, sign=sign))
    assert len(hf.Run.open(out)) == 6
    assert "the run is not finished" in problems(out)
    assert certified(out, sign=sign).verify(key=keys / "own-public.pem").ok


def going_on(run: Path) -> None:
    """As a process leaves it that is killed while it goes on with the run."""
    config = json.loads((run / "run.json").read_text())
    del config["sealed"]
    (run / "run.json").write_text(json.dumps({**config, "status": "running"}))


def test_an_edited_status_does_not_make_a_run_one_that_is_being_written(tmp_path: Path) -> None:
    run = certified(tmp_path / "a").path
    set_leaf(run / "run.json", ("status",), "running")
    with pytest.raises(hf.RunError, match=r"not as it was written: run\.json was changed"):
        hf.Run.open(run)


def test_what_was_finished_is_compared_before_a_run_goes_on(tmp_path: Path) -> None:
    run = certified(tmp_path / "a").path
    going_on(run)
    flip_bit(part(run), np.random.default_rng(0))
    before = {path: path.read_bytes() for path in files_of(run)}
    with pytest.raises(hf.RunError, match="not as it was written: certificates/part"):
        certified(run)
    assert {path: path.read_bytes() for path in files_of(run)} == before


class Scaled(torch.nn.Module):
    """A network whose code can be edited while its weights stay."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.net(x)
        return answer * Scaled.factor


def test_an_edited_class_is_seen_by_resuming_by_verify_and_by_triage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(DATA, Settings(n=400, n0=30), tmp_path / "a", 3)
    run = execute(hf.SmoothedClassifier(Scaled(), SIGMA), plan)
    assert network_check(run, hf.SmoothedClassifier(Scaled(), SIGMA)).problems == ()
    going_on(run.path)
    first = next(iter(run)).certificate
    copies = [replace(first, provenance=replace(first.provenance, index=k)) for k in range(40)]
    labelled = [(each, first.predicted) for each in copies]
    triage = hf.choose_threshold(
        labelled, radius=0.0, epsilon=0.5, fingerprint=run.fingerprint, spot_check=run.spot_check
    )
    triage = hf.Triage.from_dict(json.loads(json.dumps(triage.to_dict())))
    assert triage.spot_check == run.spot_check
    hf.SmoothedClassifier(Scaled(), SIGMA).triage(DATA.images[0], triage)
    monkeypatch.setattr(Scaled, "factor", 1.1)
    edited = hf.SmoothedClassifier(Scaled(), SIGMA)
    assert edited.fingerprint == run.fingerprint
    with pytest.raises(hf.RunError, match="the code of its classes was changed"):
        execute(edited, plan)
    with pytest.raises(hf.InvalidInput, match="chosen for another network: on the rows of its spot check"):
        edited.triage(DATA.images[0], triage)
    (said,) = network_check(run, edited).problems
    assert "answers otherwise than the run's" in said


def test_another_network_and_other_data_are_named(signed: Path) -> None:
    run = CertifiedRun(RunFolder.open(signed))
    assert network_check(run, smoothed()).problems == ()
    assert data_check(run, DATA).problems == ()
    said = "\n".join(network_check(run, hf.SmoothedClassifier(small_net(seed=1), 0.3)).problems)
    assert "its fingerprint is not the one in run.json" in said
    assert "the run's noise is sigma = 0.2, and this is sigma = 0.3" in said
    assert "answers otherwise" in said
    other = LabelledInputs("toys", images(6, seed=9), DATA.labels, DATA.indices)
    assert data_check(run, other).problems == ("the images of the data are not the run's",)


def test_fresh_noise_passes_true_counts_and_flags_those_of_another_network(signed: Path, tmp_path: Path) -> None:
    run = CertifiedRun(RunFolder.open(signed))
    assert resample(run, smoothed(), DATA, inputs=9, seed=5).problems == ()
    assert resample(compact_run(run, tmp_path / "a"), smoothed(), DATA, inputs=2, seed=5).problems == ()
    flagged = resample(run, smoothed(seed=1), DATA, inputs=3, seed=5).problems
    assert len({said.split(":")[0] for said in flagged}) == 3
    small = hf.SmoothedClassifier(small_net(classes=1), SIGMA)
    assert resample(run, small, DATA, inputs=6, seed=5).problems


def test_the_tests_p_values_keep_their_rate() -> None:
    """Exact where no ties are: of many true pairs, a share p at most has a p-value of p or less."""
    rng = np.random.default_rng(6)
    n, pairs, rate = 60, 1_000, 0.05
    votes = [votes_p_value(int(one), int(two), n) for one, two in rng.binomial(n, 0.9, (pairs, 2))]
    grid = [hf.ScoreSamples(rng.random(n), sigma=SIGMA).histogram() for _ in range(400)]
    scores = [histogram_p_value(one, other) for one, other in zip(grid[::2], grid[1::2], strict=True)]
    even = rng.dirichlet([1.0, 1.0, 1.0], (pairs, 2, n)).mean(2)
    chosen = [
        selection_p_value(int(stored.argmax()), Selection(n, np.round(fresh * n * SCORE_UNIT).astype(np.int64)))
        for stored, fresh in even
    ]
    for found in (votes, scores, chosen):
        slack = 3 * np.sqrt(rate / len(found))
        assert np.mean(np.array(found) <= rate) <= rate + slack
    sure = Selection(100, np.array([90, 10]) * SCORE_UNIT)
    assert selection_p_value(0, sure) == 1.0
    assert selection_p_value(1, sure) < 1e-6
    low, high = (hf.ScoreSamples(rng.beta(*shape, 200), sigma=SIGMA).histogram() for shape in ((2, 4), (4, 2)))
    assert histogram_p_value(low, high) < 1e-9
    assert histogram_p_value(low, low) == 1.0
    assert votes_p_value(50, 50, 60) == 1.0
    assert votes_p_value(10, 50, 60) < 1e-9


def test_keys_of_openssl_are_understood(tmp_path: Path, run: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    for line in ("genpkey -algorithm ed25519 -out key.pem", "pkey -in key.pem -pubout -out public.pem"):
        subprocess.run(["openssl", *line.split()], cwd=tmp_path, check=True)
    (run / "manifest.sig").unlink()
    RunFolder(run).sign(signer(tmp_path / "key.pem"))
    assert verify(run, key=tmp_path / "public.pem").ok
