"""A run that was killed goes on with the same command, and ends as if nothing had happened."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import holdfast as hf
from holdfast.certificates.settings import Settings
from holdfast.cli.app import run as command
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.execute import Plan, execute
from holdfast.runs.folder import RunFolder
from holdfast.smoothed import SmoothedClassifier
from holdfast.zoo.datasets.labelled import LabelledInputs
from made_runs import unsealed
from networks import images, small_net

SIGMA = 0.2
INDICES = [0, 20, 40, 60, 80, 100]


def labelled(count: int = 6) -> LabelledInputs:
    return LabelledInputs("toys", images(count), np.arange(count) % 4, 20 * np.arange(count))


def plan(out: Path, *, seed: int | None = 3, data: LabelledInputs | None = None, **settings: object) -> Plan:
    return Plan(data or labelled(), Settings(**{"n": 400, "n0": 30, **settings}), out, seed=seed)  # type: ignore[arg-type]


class Stopping(SmoothedClassifier):
    """Is interrupted once it has handed over so many certificates."""

    def __init__(self, after: int, step: float | None = None) -> None:
        super().__init__(small_net(), SIGMA, step=step)
        self.after = after
        self.asked: list[int] = []

    def stream(  # type: ignore[override]
        self, xs: object, indices: Sequence[int], settings: object, **options: object
    ) -> Iterator[hf.Certificate]:
        self.asked = list(indices)
        for done, certificate in enumerate(super().stream(xs, indices, settings, **options)):  # type: ignore[arg-type]
            if done == self.after:
                raise KeyboardInterrupt
            yield certificate


def interrupted(out: Path, after: int = 2, **question: object) -> None:
    with pytest.raises(KeyboardInterrupt):
        execute(Stopping(after), plan(out, **question))  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    return execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path_factory.mktemp("runs") / "whole"))


def test_an_interrupted_run_goes_on_where_it_stopped_and_ends_the_same(whole: CertifiedRun, tmp_path: Path) -> None:
    out, said = tmp_path / "a", list[str]()
    interrupted(out, 2)
    second = Stopping(1)
    with pytest.raises(KeyboardInterrupt):
        execute(second, plan(out), say=said.append)
    assert second.asked == INDICES[2:]
    third = Stopping(100)
    found = execute(third, plan(out), say=said.append)
    assert third.asked == INDICES[3:]
    assert said == ["resuming: 2 of 6 were finished", "resuming: 3 of 6 were finished"]
    assert [entry.certificate for entry in found] == [entry.certificate for entry in whole]
    assert found.config["status"] == "complete"
    assert len(found.config["resumed"]) == 2
    for name in ("cohen", "paper_score", "paper_margin"):
        mine, theirs = ((run.path / "exports" / f"{name}.tsv").read_text() for run in (found, whole))
        without_time = [re.sub(r"\t[\d:.]+(?=\tlabel\t|\tscore\t|\tmargin\t)", "", text) for text in (mine, theirs)]
        assert without_time[0] == without_time[1]


def test_a_run_of_float32_noise_is_continued_with_float32_noise(whole: CertifiedRun, tmp_path: Path) -> None:
    """As Holdfast 0.1.0 began it: without a step in run.json, and without a shift in its parts."""
    out = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        execute(Stopping(2, step=0), plan(out))
    unsealed(out)
    assert "step" not in RunFolder(out).config()["provenance"]
    for path in (out / "certificates").glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["shift"]), path)
    found = execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    meant = execute(SmoothedClassifier(small_net(), SIGMA, step=0), plan(tmp_path / "b"))
    assert [entry.certificate for entry in found] == [entry.certificate for entry in meant]
    assert found.step == 0
    assert {entry.certificate.provenance.noise for entry in found} == {"gaussian/numpy-sfc64"}
    assert [entry.certificate.evidence for entry in found] != [entry.certificate.evidence for entry in whole]
    interrupted(tmp_path / "c", 2)
    with pytest.raises(hf.RunError, match=r"the grid has steps of 1/255 there and 0 \(float32 noise\) here"):
        execute(SmoothedClassifier(small_net(), SIGMA, step=0), plan(tmp_path / "c"))


def test_the_secret_seed_is_taken_up_again(tmp_path: Path) -> None:
    out = tmp_path / "a"
    interrupted(out, 2, seed=None)
    seed = int(hf.Run.open(out).config["provenance"]["seed"], 16)
    found = execute(SmoothedClassifier(small_net(), SIGMA), plan(out, seed=None))
    again = execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "b", seed=seed))
    assert [entry.certificate for entry in found] == [entry.certificate for entry in again]


def test_a_run_killed_when_all_was_certified_still_gets_its_exports(whole: CertifiedRun, tmp_path: Path) -> None:
    out = tmp_path / "a"
    execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    (out / "exports" / "cohen.tsv").rename(out / "exports" / "cohen.tsv.partial")
    config = json.loads((out / "run.json").read_text())
    del config["sealed"]
    (out / "run.json").write_text(json.dumps({**config, "status": "running"}))
    found = execute(Stopping(0), plan(out))
    assert found.config["status"] == "complete"
    assert (out / "exports" / "cohen.tsv").is_file()
    assert not list(out.rglob("*.partial"))


def test_what_was_half_written_is_swept_away(tmp_path: Path) -> None:
    out = tmp_path / "a"
    interrupted(out)
    (out / "certificates" / "part-00001.parquet.partial").write_bytes(b"half")
    execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    assert not list(out.rglob("*.partial"))
    assert len(hf.Run.open(out)) == 6


@pytest.mark.parametrize("cut", [0, 4, 100])
def test_a_damaged_last_part_is_named_and_a_run_without_it_goes_on(
    whole: CertifiedRun, tmp_path: Path, cut: int
) -> None:
    out = tmp_path / "a"
    interrupted(out, 3)
    unsealed(out, status="running")  # killed, and not interrupted
    last = sorted((out / "certificates").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:cut])
    with pytest.raises(hf.RunError, match=rf"{last.name} cannot be read .*; if the run is not finished, delete it"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    last.unlink()
    found = execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    assert [entry.certificate for entry in found] == [entry.certificate for entry in whole]


def test_a_process_killed_before_it_wrote_anything_whole_leaves_a_folder_that_is_used(tmp_path: Path) -> None:
    out = tmp_path / "a"
    out.mkdir()
    (out / ".lock").touch()
    (out / "run.json.partial").write_text("{")
    assert len(execute(SmoothedClassifier(small_net(), SIGMA), plan(out))) == 6


OTHER_LABELS = LabelledInputs("toys", images(6), np.zeros(6, dtype=np.int64), 20 * np.arange(6))
OTHER_IMAGES = LabelledInputs("toys", images(6, seed=9), np.arange(6) % 4, 20 * np.arange(6))


@pytest.mark.parametrize(
    ("question", "difference"),
    [
        ({"n": 500}, "n is 400 there and 500 here"),
        ({"n0": 31}, "n0 is 30 there and 31 here"),
        ({"alpha": 0.01}, "alpha is 0.001 there and 0.01 here"),
        ({"claims": ("score",)}, "claims is label, score, margin there and score here"),
        ({"sides": "both"}, "sides is lower there and both here"),
        ({"method": hf.CDF(band=hf.DKW())}, "method is cdf-berk-jones there and cdf-dkw here"),
        ({"seed": 4}, "the seed is another"),
        ({"data": labelled(5)}, "inputs is 6 there and 5 here"),
        ({"data": OTHER_LABELS}, "the labels are others"),
        ({"data": OTHER_IMAGES}, "the images are others"),
    ],
)
def test_another_question_is_refused_by_name_and_nothing_is_touched(
    tmp_path: Path, question: dict[str, object], difference: str
) -> None:
    out = tmp_path / "a"
    interrupted(out)
    before = contents(out)
    with pytest.raises(hf.RunError, match=f"unfinished run of another question: .*{difference}"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(out, **question))  # type: ignore[arg-type]
    assert contents(out) == before


def test_another_network_or_sigma_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "a"
    interrupted(out)
    with pytest.raises(hf.RunError, match=r"question: the weights are others\. Repeat"):
        execute(SmoothedClassifier(small_net(seed=1), SIGMA), plan(out))
    with pytest.raises(hf.RunError, match=r"the noise is sigma = 0\.2 there and sigma = 0\.3 here"):
        execute(SmoothedClassifier(small_net(), 0.3), plan(out))


def test_a_finished_run_is_given_to_who_asks_the_same_question_and_refused_to_others(whole: CertifiedRun) -> None:
    before, said = contents(whole.path), list[str]()
    smoothed = Stopping(0)
    found = execute(smoothed, plan(whole.path), say=said.append)
    assert said == ["complete: 6 inputs, and nothing was left to do"]
    assert smoothed.asked == []
    assert [entry.certificate for entry in found] == [entry.certificate for entry in whole]
    with pytest.raises(hf.RunError, match="a complete run of another question: the seed is another"):
        execute(smoothed, plan(whole.path, seed=4))
    with pytest.raises(hf.RunError, match="a complete run of another question: n is 400 there and 500 here"):
        execute(smoothed, plan(whole.path, n=500))
    assert contents(whole.path) == before


def test_a_run_of_before_there_was_resuming_is_read_but_not_continued(tmp_path: Path) -> None:
    out = tmp_path / "a"
    interrupted(out)
    config = json.loads((unsealed(out) / "run.json").read_text())
    del config["fingerprints"]
    (out / "run.json").write_text(json.dumps(config))
    assert len(hf.Run.open(out)) == 2
    with pytest.raises(hf.RunError, match="did not yet record what continuing needs"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(out))


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "a"
    interrupted(out)
    with RunFolder(out).locked(), pytest.raises(hf.RunError, match="another process is writing into"):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
    assert len(execute(SmoothedClassifier(small_net(), SIGMA), plan(out))) == 6


def test_a_locked_folder_is_locked_for_every_thread_until_it_is_released(tmp_path: Path) -> None:
    def refused() -> bool:
        try:
            with RunFolder(tmp_path).locked():
                return False
        except hf.RunError as error:
            return "another process is writing into" in str(error)

    with ThreadPoolExecutor(1) as other:
        with RunFolder(tmp_path).locked():
            assert refused()
            assert other.submit(refused).result()
        assert not refused()
        assert not other.submit(refused).result()


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from holdfast.runs.folder import RunFolder\n"
        "with RunFolder(pathlib.Path(sys.argv[1])).locked(): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9
    with RunFolder(tmp_path).locked():
        pass


def test_a_folder_that_cannot_be_locked_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(hf.RunError, match=r"could not write .*\.lock: Is a directory"), RunFolder(tmp_path).locked():
        pass


def test_who_comes_second_to_a_new_folder_leaves_it_to_the_first(whole: CertifiedRun, tmp_path: Path) -> None:
    out = tmp_path / "a"

    class Slow(SmoothedClassifier):
        def stream(self, *args: object, **options: object) -> Iterator[hf.Certificate]:
            execute(SmoothedClassifier(small_net(), SIGMA), plan(out))
            yield from super().stream(*args, **options)  # type: ignore[arg-type]

    with pytest.raises(hf.RunError, match="exists already and is left as it is"):
        execute(Slow(small_net(), SIGMA), plan(out))
    assert [entry.certificate for entry in hf.Run.open(out)] == [entry.certificate for entry in whole]


def test_an_interruption_while_the_folder_is_made_loses_nothing(
    whole: CertifiedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is made for the first certificate: that one is kept."""
    create, times = RunFolder.create, list[int]()

    def interrupted_once(path: Path, config: dict[str, object]) -> RunFolder:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return create(path, config)

    monkeypatch.setattr(RunFolder, "create", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "a"))
    kept = hf.Run.open(tmp_path / "a")
    assert len(kept) == 1
    assert kept.config["status"] == "interrupted"
    found = execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "a"))
    assert [entry.certificate for entry in found] == [entry.certificate for entry in whole]


def test_a_network_is_known_by_its_weights_and_its_structure() -> None:
    first = SmoothedClassifier(small_net(), SIGMA).fingerprint
    assert SmoothedClassifier(small_net(), SIGMA).fingerprint == first
    changed = small_net()
    with torch.no_grad():
        next(changed.parameters()).view(-1)[0].nextafter_(torch.tensor(9.0))
    assert SmoothedClassifier(changed, SIGMA).fingerprint != first
    biased = [SmoothedClassifier(hf.ProbitModel([1.0], b), SIGMA, outputs="probabilities").fingerprint for b in (0, 1)]
    assert biased[0] != biased[1]
    smoother = small_net()
    smoother.register_module("1", torch.nn.Tanh())
    assert SmoothedClassifier(smoother, SIGMA).fingerprint != first


def test_a_run_says_what_its_certificates_say(whole: CertifiedRun) -> None:
    radii = np.array([0.0, 0.1, 0.3])
    kept = {(m, k): whole.lower(m, k, radii) for m in ("score", "margin") for k in whole.methods(m)}
    direct = np.array([entry.certificate.score.lower(radii) for entry in whole])
    long = CertifiedRun(RunFolder.open(whole.path))
    assert np.array_equal(long.lower("score", "cdf-berk-jones", radii), direct)
    assert all(np.array_equal(long.lower(*key, radii), values) for key, values in kept.items())
    assert [entry.certificate for entry in long] == [entry.certificate for entry in whole]
    radius = [entry.certificate.label_radius for entry in whole]
    assert np.maximum(long.label_radius, 0.0).tolist() == radius
    assert whole.correct.tolist() == [
        not entry.certificate.abstained and entry.certificate.predicted == entry.label for entry in whole
    ]


def test_parts_in_any_order_are_read_in_the_order_of_the_index(whole: CertifiedRun, tmp_path: Path) -> None:
    out = tmp_path / "a"
    odd = LabelledInputs("toys", images(6)[1::2], np.arange(6)[1::2] % 4, 20 * np.arange(6)[1::2])
    run = execute(SmoothedClassifier(small_net(), SIGMA), plan(out, data=odd))
    for number, part in enumerate(sorted(out.glob("certificates/part-*.parquet"))):
        part.rename(part.with_name(f"part-{70 + number:05}.parquet"))
    unsealed(out)
    even = execute(SmoothedClassifier(small_net(), SIGMA), plan(tmp_path / "b", data=labelled().every(2, None)))
    for number, part in enumerate(sorted(even.path.glob("certificates/part-*.parquet"))):
        part.rename(out / "certificates" / f"part-{30 - number:05}.parquet")
    assert [entry.index for entry in CertifiedRun(RunFolder.open(run.path))] == INDICES


@pytest.mark.slow
def test_a_run_killed_outright_goes_on_with_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a"
    # Parts are written at once, so that there is one to wait for.
    code = "import holdfast.runs.writer as w; w._SECONDS = 0.0; from holdfast.cli.app import main; main()"
    embedded = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25"]
    arguments = ["certify", *embedded, "--out", str(out), "--n", "300", "--n0", "10", "--max", "64"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    began = time.monotonic()
    while not list(out.glob("certificates/part-*.parquet")) and time.monotonic() - began < 120:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    assert command(arguments) == hf.RunError.exit_code
    assert "another process is writing into" in " ".join(capsys.readouterr().err.split())
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = hf.Run.open(out)
    assert killed.config["status"] == "running"
    assert 0 < len(killed) < 64
    kept = {name: content for name, content in contents(out / "certificates").items() if name.endswith(".parquet")}
    assert command(arguments) == 0
    assert f"resuming: {len(killed)} of 64 were finished" in " ".join(capsys.readouterr().err.split())
    assert kept.items() <= contents(out / "certificates").items()
    seed = killed.config["provenance"]["seed"]
    assert command([*arguments[:8], str(tmp_path / "b"), *arguments[9:], "--seed", seed]) == 0
    first, second = hf.Run.open(out), hf.Run.open(tmp_path / "b")
    assert isinstance(first, CertifiedRun)
    assert isinstance(second, CertifiedRun)
    assert [entry.certificate for entry in first] == [entry.certificate for entry in second]
