"""Runs on disk: complete, replayable, never damaged."""

import errno
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import holdfast as hf
from evidence import evidence_of
from holdfast.certificates.settings import Settings
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.compact import compact_run
from holdfast.runs.execute import Plan, execute
from holdfast.runs.folder import RunFolder
from holdfast.runs.imported import import_log
from holdfast.runs.store import Entry, write_part
from holdfast.runs.tsv import log_numbers, log_table, read_log, write_log
from holdfast.smoothed import SmoothedClassifier
from holdfast.zoo.datasets.labelled import LabelledInputs
from made_runs import unsealed
from networks import images, small_net

SIGMA = 0.2


def labelled(count: int = 6) -> LabelledInputs:
    return LabelledInputs("toys", images(count), np.arange(count) % 4, 20 * np.arange(count))


def plan(out: Path, count: int = 6, **settings: object) -> Plan:
    return Plan(labelled(count), Settings(n=400, n0=30, **settings), out, seed=3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    return execute(SmoothedClassifier(small_net(12), SIGMA), plan(tmp_path_factory.mktemp("runs") / "a", sides="both"))


def test_what_is_read_back_is_what_was_certified(run: CertifiedRun) -> None:
    again = hf.Run.open(run.path)
    assert isinstance(again, CertifiedRun)
    data = labelled()
    direct = list(
        SmoothedClassifier(small_net(12), SIGMA).stream(
            list(data.images), data.indices.tolist(), Settings(n=400, n0=30, sides="both"), seed=3
        )
    )
    assert [entry.certificate for entry in again] == direct
    assert [entry.index for entry in again] == [0, 20, 40, 60, 80, 100]
    assert [entry.label for entry in again] == [0, 1, 2, 3, 0, 1]


def test_noise_follows_the_index_in_the_dataset_so_skipping_changes_nothing(run: CertifiedRun, tmp_path: Path) -> None:
    part = Plan(labelled().every(2, None), Settings(n=400, n0=30, sides="both"), tmp_path / "b", seed=3)
    fewer = execute(SmoothedClassifier(small_net(12), SIGMA), part)
    assert [e.certificate for e in fewer] == [e.certificate for e in run][::2]


def test_skip_and_max_count_as_people_mean_them() -> None:
    assert labelled(6).every(2, 2).indices.tolist() == [0, 40]
    assert labelled(6).every(1, 2).indices.tolist() == [0, 20]
    assert labelled(6).every(4, None).indices.tolist() == [0, 80]


def test_the_configuration_says_what_was_run(run: CertifiedRun) -> None:
    config = json.loads((run.path / "run.json").read_text())
    assert config["status"] == "complete"
    assert (config["sigma"], config["n"], config["n0"], config["alpha"]) == (SIGMA, 400, 30, 0.001)
    assert int(config["provenance"]["seed"], 16) == 3
    assert config["versions"]["torch"] == torch.__version__


def test_other_tools_read_the_parquet(run: CertifiedRun) -> None:
    table = pq.read_table(run.path / "certificates").to_pylist()
    assert [row["predicted"] for row in table] == [entry.certificate.predicted for entry in run]
    assert [row["label_radius"] for row in table] == [entry.certificate.label_radius for entry in run]
    assert all(sum(row["score_counts"]) == 400 for row in table)


def test_certified_accuracy_is_the_share_that_is_right_and_above(run: CertifiedRun) -> None:
    found = run.certified_accuracy("score", radii=[0.0, 0.1], thresholds=[0.2, 0.6], method="naive-hoeffding")
    for i, c in enumerate((0.2, 0.6)):
        for j, radius in enumerate((0.0, 0.1)):
            by_hand = np.mean(
                [
                    e.certificate.predicted == e.label
                    and e.certificate.recompute(method=hf.Naive()).score.lower(radius) > c
                    for e in run
                ]
            )
            assert found[i, j] == by_hand
    label = run.certified_accuracy("label", radii=[0.0, 0.05])[0]
    certified = [e.certificate.predicted == e.label and e.certificate.label.certified for e in run]
    assert label[0] == np.mean(certified)


@pytest.mark.parametrize("measure", ["label", "score", "margin"])
def test_an_exported_log_is_imported_and_exported_again_byte_for_byte(
    run: CertifiedRun, tmp_path: Path, measure: str
) -> None:
    first, second = tmp_path / f"{measure}_sigma0.20.tsv", tmp_path / "second.tsv"
    write_log(first, run.log_of(measure))
    back = import_log(first, tmp_path / "imported")
    assert back.measures == (measure,)
    assert back.sigma == SIGMA
    write_log(second, back.log_of(measure))
    assert first.read_bytes() == second.read_bytes()
    again = import_log(second, tmp_path / "again")
    assert again.log == back.log
    name = {"label": "cohen.tsv", "score": "paper_score.tsv", "margin": "paper_margin.tsv"}[measure]
    assert (run.path / "exports" / name).read_bytes() == first.read_bytes()


def test_exported_bounds_are_rounded_down_and_abstentions_keep_theirs(run: CertifiedRun) -> None:
    log = run.log_of("margin")
    predicted, numbers = log.column("predict").to_pylist(), log_numbers(log)
    for entry, answer, bounds in zip(run, predicted, numbers, strict=True):
        assert answer == (-1 if entry.certificate.abstained else entry.certificate.predicted)
        assert bounds[1] == entry.certificate.margin.lower(0.25)
    assert any(answer == -1 and bounds[0] < 0 for answer, bounds in zip(predicted, numbers, strict=True)), (
        "some toy input must abstain with a negative margin"
    )


def test_a_written_log_never_shows_more_than_was_certified(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    write_log(path, log_table([1], [2], [2], [[0.8996]], [75.25]))
    assert path.read_text().splitlines()[1] == "1\t2\t2\t0.899\t1\t0:01:15.250000"
    assert read_log(path) == log_table([1], [2], [2], [[0.899]], [75.25])


def test_a_log_with_time_in_seconds_or_with_days_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(
        "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t15.4\n20\t1\t-1\t0.0\t0\t1 day, 0:00:01\n"
    )
    assert read_log(path).column("time").to_pylist() == [15.4, 86_401.0]


def test_an_existing_folder_is_refused_and_left_alone(run: CertifiedRun) -> None:
    before = {path: path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()}
    with pytest.raises(hf.RunError, match="exists already and is left as it is"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(run.path))
    assert {path: path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()} == before


def test_a_refused_input_or_model_leaves_no_folder(tmp_path: Path) -> None:
    bad = LabelledInputs("bad", images(2) * 300, np.zeros(2, dtype=np.int64), np.arange(2))
    with pytest.raises(hf.InvalidInput):
        execute(SmoothedClassifier(small_net(), SIGMA), Plan(bad, Settings(n=100), tmp_path / "a"))
    with pytest.raises(hf.ModelError):
        execute(SmoothedClassifier(torch.nn.Flatten(0), SIGMA), plan(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_a_disk_that_is_too_full_is_refused_before_sampling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1_000

    monkeypatch.setattr("holdfast.runs.folder.shutil.disk_usage", lambda _: Usage)
    with pytest.raises(hf.RunError, match="0 MB free"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_a_disk_that_fills_up_while_writing_is_reported_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: object, path: Path, **options: object) -> None:
        path.write_bytes(b"half of a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("holdfast.runs.store.pq.write_table", full)
    with pytest.raises(hf.RunError, match="no space left"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "a"))
    assert not list((tmp_path / "a").rglob("*.partial"))
    assert not list((tmp_path / "a").rglob("*.parquet"))


def test_an_interruption_keeps_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoothed = SmoothedClassifier(small_net(), SIGMA)
    whole = smoothed.stream

    def interrupted(*args: object, **options: object) -> Iterator[hf.Certificate]:
        yield from itertools.islice(whole(*args, **options), 4)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(smoothed, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(smoothed, plan(tmp_path / "a"))
    kept = hf.Run.open(tmp_path / "a")
    assert len(kept) == 4
    assert kept.config["status"] == "interrupted"


def test_a_damaged_or_foreign_folder_is_refused(run: CertifiedRun, tmp_path: Path) -> None:
    with pytest.raises(hf.RunError, match="does not exist"):
        hf.Run.open(tmp_path / "nothing")
    with pytest.raises(hf.RunError, match="is not a run"):
        hf.Run.open(tmp_path)
    RunFolder.create(tmp_path / "new", {"kind": "certified", "format": 99})
    with pytest.raises(hf.RunError, match="format 99"):
        hf.Run.open(tmp_path / "new")
    broken = tmp_path / "broken"
    (broken / "certificates").mkdir(parents=True)
    (broken / "run.json").write_text((run.path / "run.json").read_text())
    unsealed(broken)
    (broken / "certificates" / "part-00000.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(hf.RunError, match="cannot be read"):
        len(hf.Run.open(broken))
    (broken / "run.json").write_text("{")
    with pytest.raises(hf.RunError, match="cannot be read"):
        hf.Run.open(broken)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "columns \\(none\\)"),
        ("a\tb\n1\t2\n", "columns a, b"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n", "no rows"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\n", "line 2: expected 6 columns, got 2"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\tx\t1\t1\t1\n", "line 2"),
    ],
)
def test_a_log_that_is_not_one_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(text)
    with pytest.raises(hf.RunError, match=complaint):
        import_log(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_read_and_reported_without_torch(run: CertifiedRun) -> None:
    code = (
        "import sys, holdfast as hf\n"
        "from holdfast.report.accuracy import Question, as_json\n"
        "from holdfast.report.figures import accuracy_figure\n"
        f"run = hf.Run.open({str(run.path)!r})\n"
        "as_json([run], Question()); accuracy_figure([run], 'score', Question())\n"
        "hf.bound(hf.ScoreSamples([0.5], sigma=1.0), alpha=0.1).lower(0.1)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_abstention_is_not_right_whatever_the_threshold(tmp_path: Path) -> None:
    flat = hf.ProbitModel(np.zeros(36), 0.0)
    data = LabelledInputs("flat", images(4), np.zeros(4, dtype=np.int64), np.arange(4))
    out = tmp_path / "a"
    found = execute(
        SmoothedClassifier(flat, SIGMA, outputs="probabilities"),
        Plan(data, Settings(n=100, claims=("score", "margin")), out, seed=1),
    )
    assert all(entry.certificate.abstained and entry.certificate.predicted == 0 for entry in found)
    assert found.certified_accuracy("score", radii=[0.0], thresholds=[0.1]).tolist() == [[0.0]]
    assert not any(found.log_of("score").column("correct").to_pylist())


def test_a_network_and_data_of_ones_own_make_a_run_from_python(tmp_path: Path) -> None:
    flat = hf.ProbitModel([1.0, -2.0], 0.4)
    points = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    smoothed = SmoothedClassifier(flat, SIGMA, outputs="probabilities")
    found = hf.certify_run(smoothed, points, [0, 1, 0, 1, 0], out=tmp_path / "a", settings=Settings(n=100), seed=2)
    assert found.entries[3].certificate == smoothed.certify(points[3], n=100, seed=2, index=3)
    assert len(hf.Run.open(tmp_path / "a")) == 5


def test_a_certified_score_does_not_certify_the_label(tmp_path: Path) -> None:
    # 60 of 100 copies are sure, 40 nearly undecided against it: the average is certified above one half, the vote is not.
    values = np.array([0.95] * 60 + [0.45] * 40)
    score = hf.ScoreSamples(values, sigma=SIGMA).histogram()
    margin = hf.ScoreSamples(2 * values - 1, support=(-1.0, 1.0), sigma=SIGMA).histogram()
    provenance = hf.Provenance(1, 0, "none", "none", "cpu", "float32", "0", seconds=0.0)
    cert = hf.Certificate(
        0, 10, 0.05, ("label", "score"), "lower", hf.CDF(), evidence_of(100, 60, score, margin), provenance
    )
    assert not cert.abstained
    assert not cert.label.certified
    config = {
        "kind": "certified",
        "sigma": SIGMA,
        "inputs": 1,
        "n": 100,
        "n0": 10,
        "alpha": 0.05,
        "claims": ["label", "score"],
        "sides": "lower",
        "method": "cdf-berk-jones",
        "provenance": provenance.to_dict(),
    }
    folder = RunFolder.create(tmp_path / "a", config)
    write_part(folder, 0, [Entry(0, 0, cert)])
    run = hf.Run.open(tmp_path / "a")
    assert run.correct.tolist() == [True]
    assert run.certified_accuracy("label", radii=[0.0]).tolist() == [[0.0]]
    assert run.certified_accuracy("score", radii=[0.0], thresholds=0.5).tolist() == [[1.0]]
    with pytest.raises(hf.InvalidArgument, match="needs thresholds="):
        run.certified_accuracy("score", radii=[0.0], thresholds=[])
    write_part(folder, 1, [Entry(0, 0, cert)])
    with pytest.raises(hf.RunError, match="more than once"):
        len(hf.Run.open(tmp_path / "a"))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("0\t1\t1\tnan\t1\t1", "numbers must be finite"),
        ("0\t1\t1\t-5\t1\t1", "a radius must be at least 0, got -5"),
        ("0\t1\t-1\t0.0\t7\t1", "correct must be 1 where"),
        ("0\t1\t1\t0.5\t0\t1", "correct must be 1 where"),
        ("0\t1\t1\t0.5\t1\t1\n0\t1\t1\t0.5\t1\t1", "same idx"),
    ],
)
def test_a_log_with_impossible_numbers_is_refused(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(f"idx\tlabel\tpredict\tradius\tcorrect\ttime\n{row}\n")
    with pytest.raises(hf.RunError, match=complaint):
        import_log(path, tmp_path / "run")


def test_a_compact_copy_is_smaller_and_claims_no_more(tmp_path: Path) -> None:
    source = execute(
        SmoothedClassifier(small_net(12), SIGMA),
        Plan(labelled(), Settings(n=3_000, sides="both"), tmp_path / "a", seed=3),
    )
    copy = compact_run(source, tmp_path / "b", bins=512)
    again = hf.Run.open(tmp_path / "b")
    assert isinstance(again, CertifiedRun)
    assert [entry.certificate for entry in again] == [entry.certificate for entry in copy]
    assert again.config["compacted"] == {"bins": 512, "from_bins": [16_384]}
    assert {**again.config, "compacted": None} == {**source.config, "compacted": None}
    radii = np.array([0.0, 0.1, 0.3])
    for before, after in zip(source, again, strict=True):
        assert (before.index, before.label) == (after.index, after.label)
        assert before.certificate.label_radius == after.certificate.label_radius
        for name, curve in before.certificate.curves.items():
            looser = after.certificate.curves[name]
            assert (looser.lower(radii) <= curve.lower(radii)).all()
            assert (looser.upper(radii) >= curve.upper(radii)).all()
            assert looser.lower(radii) == pytest.approx(curve.lower(radii), abs=2 * np.pi / (2 * 512))

    def size(path: Path) -> int:
        return sum(file.stat().st_size for file in (path / "certificates").iterdir())

    assert size(copy.path) < 0.6 * size(source.path)
    with pytest.raises(hf.RunError, match="exists already"):
        compact_run(source, tmp_path / "b")


def test_what_has_no_histograms_is_not_compacted(run: CertifiedRun, tmp_path: Path) -> None:
    write_log(tmp_path / "label_sigma0.20.tsv", run.log_of("label"))
    log = import_log(tmp_path / "label_sigma0.20.tsv", tmp_path / "imported")
    with pytest.raises(hf.InvalidArgument, match="holds no histograms"):
        compact_run(log, tmp_path / "c")
    RunFolder.create(tmp_path / "empty", {**run.config, "status": "interrupted"})
    unsealed(tmp_path / "empty")
    with pytest.raises(hf.InvalidArgument, match="nothing to compact"):
        compact_run(hf.Run.open(tmp_path / "empty"), tmp_path / "c")
    with pytest.raises(hf.InvalidArgument, match="a half, a quarter"):
        compact_run(run, tmp_path / "c", bins=1_000)
    assert not (tmp_path / "c").exists()
