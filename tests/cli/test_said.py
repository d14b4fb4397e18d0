"""Commands say what they did, and refuse what they cannot do before any work."""

import os
import re
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import holdfast as hf
from holdfast.cli.app import run
from holdfast.models.torch import TorchModel
from made_runs import made_run, unsealed

EMBEDDED = ["--model", "fashion-mnist", "--data", "fashion-mnist"]
NOISE = ["--sigma", "0.25"]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    return " ".join((found.out + " " + found.err).split())


def test_thresholds_that_no_score_reaches_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    made_run(path, 3, in_a_part=3)
    assert run(["report", str(path), "--threshold", "0.5,2,-0.5", "--format", "html"]) == 0
    text = said(capsys)
    assert "the score is between 0 and 1: no input is above threshold 2" in text
    assert "the score is between 0 and 1: every input is above threshold -0.5" in text
    assert "the margin is between -1 and 1: no input is above threshold 2" in text
    assert text.count("note:") == 3


def test_the_thresholds_that_a_refusal_names_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("x", "nan", ""):
        assert run(["triage", "--thresholds", wrong]) == hf.InvalidArgument.exit_code
        named = re.search(r"such as ([\d.,]+),", said(capsys))
        assert named is not None
        assert run(["triage", "--thresholds", named[1]]) == 0


def test_demo_says_when_more_is_asked_for_than_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.certify.execute_or_say", _enough)
    with pytest.raises(_EnoughError):
        run(["demo", "--max", "1000", "--out", str(tmp_path / "a")])
    assert "500 images are embedded, and all of them are certified: --max 1,000 asks for more" in said(capsys)


class _EnoughError(Exception):
    pass


def _enough(*_: object, **__: object) -> None:
    raise _EnoughError


def test_one_of_something_is_not_called_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a"
    assert run(["certify", *EMBEDDED, *NOISE, "--n", "60", "--n0", "5", "--max", "1", "--out", str(out)]) == 0
    text = said(capsys)
    assert f"1 certificate in {out}" in text
    assert "a: 1 input, fashion-mnist" in text
    assert run(["certify", *EMBEDDED, *NOISE, "--n", "60", "--n0", "5", "--max", "1", "--out", str(out)]) == 0
    assert "complete: 1 input, and nothing was left to do" in said(capsys)
    log = tmp_path / "score_sigma0.25.tsv"
    assert run(["export", str(out), "--measure", "score", "--out", str(log)]) == 0
    assert "1 row in" in said(capsys)
    assert run(["import", str(log), "--out", str(tmp_path / "p")]) == 0
    assert "imported 1 input (score" in said(capsys)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
@pytest.mark.parametrize("place", ["/proc/x", "/nope/a"])
def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    made_run(tmp_path / "run", 3, in_a_part=3)
    log = tmp_path / "score_sigma0.25.tsv"
    assert run(["export", str(tmp_path / "run"), "--measure", "score", "--out", str(log)]) == 0
    import_module("holdfast.report.thumbnails")  # has its own name for what is replaced here
    monkeypatch.setattr("holdfast.zoo.datasets.open.open_dataset", _enough)  # no data are read
    certified = [str(tmp_path / "run")]
    for command in (
        ["certify", *EMBEDDED, *NOISE],
        ["demo"],
        ["compact", *certified],
        ["import", str(log)],
        ["export", *certified, "--measure", "score"],
        ["triage", *certified, "--radius", "0.1"],
        ["report", *certified],
    ):
        capsys.readouterr()
        assert run([*command, "--out", place]) == hf.RunError.exit_code, command
        assert place in capsys.readouterr().err
    assert (
        run(["train", "--data", "a", "--sigma", "1", "--out", f"{place}.safetensors"]) == hf.CheckpointError.exit_code
    )
    assert "free some space" not in said(capsys)
    assert not Path("/nope").exists()


def test_a_probe_of_a_place_leaves_nothing(tmp_path: Path) -> None:
    from holdfast.files import why_unwritable

    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "a", tmp_path / "b" / "c", tmp_path / "empty"):
        assert why_unwritable(target) == ""
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty"]
    (tmp_path / "file").touch()
    assert why_unwritable(tmp_path / "file" / "a") == f"{tmp_path / 'file'} is not a folder"


def test_weights_that_cannot_be_written_for_lack_of_a_permission_ask_for_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.zoo.checkpoint import write_bytes

    for number, remedy in ((13, "Permission denied.*; choose another place"), (28, "; free some space, or choose")):

        def fails(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("holdfast.zoo.checkpoint.write_file", fails)
        with pytest.raises(hf.CheckpointError, match=remedy) as caught:
            write_bytes(tmp_path / "a", b"")
        assert ("space" in str(caught.value)) is (number == 28)


def test_a_decision_names_the_measure_and_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--at-least", "0.5", "--radius", "0.1", "--max", "3", "--n", "2000", "--seed", "1"]
    for measure in ("score", "margin"):
        assert run(["decide", *EMBEDDED, *NOISE, *question, "--measure", measure]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("input ")]
        assert len(lines) == 3
        for line in lines:
            found = re.match(r"input \d+, class (\d) \([\w/ -]+\), ", line)
            assert found, line
            assert f"the average {measure} of class {found[1]} " in line


def test_every_precision_is_named_and_those_of_gpus_are_refused_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["certify", "--help"]) == 0
    text = said(capsys)
    for name in ("float32", "tf32", "tf32-convolutions", "tf32-products", "bfloat16", "float16"):
        assert name in text
    for command in (["certify", "--out", "runs/never"], ["decide", "--at-least", "0.5", "--radius", "0"]):
        asked = [*command, *EMBEDDED, *NOISE, "--precision", "tf32-convolutions", "--device", "cpu"]
        assert run(asked) == hf.InvalidArgument.exit_code
        assert "precision tf32-convolutions exists on CUDA GPUs only" in said(capsys)


@pytest.fixture
def grey_files(tmp_path: Path) -> Path:
    """Twelve grey PNGs of 28 x 28, of two classes."""
    rng = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / "files" / "test" / str(number % 2) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (28, 28), dtype=np.uint8)).save(path)
    return tmp_path / "files"


def test_images_that_are_resized_are_announced_in_a_line_and_can_be_kept(
    grey_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a"
    asked = ["certify", "--model", "fashion-mnist", "--data", str(grey_files), *NOISE, "--n", "60", "--n0", "5"]
    assert run([*asked, "--out", str(out)]) == hf.ModelError.exit_code
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: 12 of 12 images")]
    assert len(notes) == 1
    assert "such as one of 28 x 28, grey, are made 224 x 224, colour" in notes[0]
    assert (
        "a radius is measured after that; --size original keeps sizes and grey as they are, --size 224-grey only resizes"
        in notes[0]
    )
    assert run([*asked, "--out", str(out), "--size", "original", "--max", "4"]) == 0
    assert "are made" not in said(capsys)
    opened = hf.Run.open(out)
    assert opened.config["size"] == "original"
    # Whoever reads the run's data again takes them in the same size.
    same = [str(out), "--model", "fashion-mnist", "--data", str(grey_files)]
    assert run(["verify", *same]) == 0
    assert run(["audit", *same, "--n", "60", "--radii", "0.1"]) == 0
    assert run(["report", str(out), "--data", str(grey_files), "--format", "html"]) == 0


def test_a_size_is_one_that_the_images_can_have(grey_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = {size: hf.datasets.load(str(grey_files), size=size).shape for size in (None, 20, "original")}
    assert shapes == {None: (3, 224, 224), 20: (3, 20, 20), "original": (1, 28, 28)}
    x, _ = hf.datasets.load(str(grey_files), size="original")[0]
    with Image.open(grey_files / "test" / "0" / "0.png") as file:
        assert np.array_equal(x[0] * 255, np.asarray(file))
    assert hf.datasets.load(str(grey_files), size=20)[0][0].shape == (3, 20, 20)
    for size in (0, 10**6, "large"):
        with pytest.raises(hf.DatasetError, match=r"size must be a number of pixels from 1 to 4,096, .* or 'original'"):
            hf.datasets.load(str(grey_files), size=size)
    with pytest.raises(hf.DatasetError, match="for folders of image files; fashion-mnist holds"):
        hf.datasets.load("fashion-mnist", size=28)
    Image.new("RGB", (28, 28)).save(grey_files / "test" / "1" / "z.png")
    with pytest.raises(hf.DatasetError, match=r"z.png is of 28 x 28, and the first image of 28 x 28, grey"):
        hf.datasets.load(str(grey_files), size="original").check()
    assert run(["decide", *EMBEDDED, *NOISE, "--at-least", "0.5", "--radius", "0", "--size", "tall"]) == 2
    assert "--size takes a number of pixels, such as 32 or 32-grey, or 'original'" in said(capsys)


def test_grey_files_can_be_resized_and_stay_grey(
    grey_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = hf.datasets.load(str(grey_files), size="14-grey")
    whole = hf.datasets.load(str(grey_files), size=14)
    assert (data.shape, whole.shape) == ((1, 14, 14), (3, 14, 14))
    assert np.array_equal(data[0][0][0], whole[0][0][0])
    for wrong in ("-grey", "0-grey", "9" * 5_000, "14-red", "14-grey-grey", "1e2-grey"):
        with pytest.raises(
            hf.DatasetError, match="size must be a number of pixels from 1 to 4,096, such as 32, or '32-grey'"
        ):
            hf.datasets.load(str(grey_files), size=wrong)
    Image.new("RGB", (28, 28), (255, 0, 0)).save(grey_files / "test" / "0" / "0.png")
    asked = ["--model", "fashion-mnist", "--data", str(grey_files), "--size", "28-grey"]
    out = ["--n", "60", "--n0", "5", "--max", "3", "--out", str(tmp_path / "a")]
    assert run(["certify", *asked[:4], *NOISE, "--size", "28-grey", *out]) == 0
    assert "1 of 3 images of files, such as one of 28 x 28, are made 28 x 28, grey, without transparency" in said(
        capsys
    )
    assert run(["verify", str(tmp_path / "a"), *asked[:4], "--resample", "1"]) == 0


def test_audit_and_recheck_refuse_the_same_mistakes_with_the_same_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    made_run(path, 3, in_a_part=3)
    log = tmp_path / "label.tsv"
    assert run(["export", str(path), "--measure", "label", "--out", str(log)]) == 0
    assert run(["import", str(log), "--out", str(tmp_path / "log")]) == 0
    for target, code, words in (
        (tmp_path / "log", hf.InvalidArgument.exit_code, "is an imported log, not certificates of a network"),
        (tmp_path / "nowhere", hf.RunError.exit_code, "does not exist"),
    ):
        for command in ("audit", "recheck"):
            capsys.readouterr()
            assert run([command, str(target), *EMBEDDED]) == code
            assert words in said(capsys)


def test_a_run_without_finished_certificates_is_refused_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    made_run(path, 3, in_a_part=3)
    unsealed(path, status="interrupted")
    for part in (path / "certificates").iterdir():
        part.unlink()
    for command in ("audit", "recheck"):
        assert run([command, str(path), *EMBEDDED]) == hf.InvalidArgument.exit_code
        assert "holds no finished certificates yet" in said(capsys)


def test_a_network_of_a_gpus_precision_can_be_made_to_verify_its_runs() -> None:
    net = hf.load("fashion-mnist")
    assert TorchModel(net, precision="tf32").precision == "tf32"


def test_files_that_are_not_there_or_are_folders_are_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_run(tmp_path / "a", 3, in_a_part=3)
    absent, a_run = tmp_path / "triage.json", tmp_path / "a"
    for command, reason in (
        (["drift", str(absent), str(a_run)], f"{absent} cannot be read (it does not exist); TRIAGE must be a file"),
        (["drift", str(a_run), str(absent)], f"{a_run} cannot be read (it is a folder); TRIAGE must be a file"),
    ):
        assert run(command) == hf.InvalidArgument.exit_code
        assert reason in said(capsys)


def test_a_warning_is_a_note_without_a_place_in_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text(
        "import numpy as np\n\ndef make():\n    return lambda rows: np.ones((len(rows), 10)) * np.arange(10)\n"
    )
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        asked = ["--data", "fashion-mnist", "--sigma", "0.25", "--n", "200", "--n0", "10", "--max", "2", "--out", "run"]
        assert run(["certify", "--model", "plain.py:make", *asked]) == 0
    shown = said(capsys)
    assert "note: if this run is interrupted, it cannot be resumed" in shown
    assert "RuntimeWarning" not in shown


def test_a_log_that_is_imported_again_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_run(tmp_path / "run", 3, in_a_part=3)
    log = tmp_path / "score_sigma0.25.tsv"
    assert run(["export", str(tmp_path / "run"), "--measure", "score", "--out", str(log)]) == 0
    said(capsys)
    for first in ("imported 3 inputs", "complete: "):
        assert run(["import", str(log), "--out", str(tmp_path / "p")]) == 0
        assert (answer := said(capsys)).startswith(first)
        assert ("imported 3 inputs" in answer) == (first != "complete: ")
        assert "next: holdfast report" in answer


def test_the_html_file_of_a_report_has_the_suffix_that_browsers_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_run(tmp_path / "run", 3, in_a_part=3)
    assert run(["report", str(tmp_path / "run"), "--out", str(tmp_path / "rep")]) == hf.InvalidArgument.exit_code
    assert "--out is the HTML file and must end in .html" in said(capsys)
    assert not (tmp_path / "rep").exists()
    assert run(["report", str(tmp_path / "run"), "--format", "json", "--out", str(tmp_path / "rep")]) == 0


def test_a_radius_that_cannot_be_is_refused_by_the_name_of_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_run(tmp_path / "run", 3, in_a_part=3)
    for command in (["report"], ["audit", *EMBEDDED], ["recheck", *EMBEDDED]):
        run([command[0], str(tmp_path / "run"), *command[1:], "--radii", "0.1,-1"])
        assert "--radii must be finite and nonnegative" in said(capsys)
    assert run(["triage", str(tmp_path / "run"), "--radius", "-1"]) == hf.InvalidArgument.exit_code
    assert said(capsys).startswith("holdfast: --radius must be finite and nonnegative")


def test_drift_of_the_calibration_run_itself_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration, rule = str(tmp_path / "cal"), str(tmp_path / "triage.json")
    certify = ["certify", *EMBEDDED, *NOISE, "--n", "200", "--max", "40", "--no-progress"]
    assert run([*certify, "--out", calibration, "--seed", "1"]) == 0
    run(["triage", calibration, "--radius", "0.02", "--epsilon", "0.3", "--out", rule])
    said(capsys)
    assert run(["drift", rule, calibration]) == 0
    assert "These are the calibration inputs: all 40 average scores are as they were then" in said(capsys)
    assert run([*certify, "--out", str(tmp_path / "again"), "--seed", "2"]) == 0
    said(capsys)
    assert run(["drift", rule, str(tmp_path / "again")]) == 0
    assert "No drift found" in said(capsys)


def test_a_model_that_ends_the_program_while_it_is_asked_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quitting.py").write_text("""
import holdfast as hf, numpy as np
calls = []

def scores(rows):
    calls.append(1)
    if len(calls) > 5:
        raise SystemExit(0)
    return np.full((len(rows), 10), 0.1)

def make():
    return hf.CallableModel(scores, version="1")
""")
    command = ["certify", "--model", "quitting.py:make", "--data", "fashion-mnist", *NOISE, "--n", "900", "--max", "3"]
    assert run([*command, "--batch", "100", "--out", "a"]) == hf.ModelError.exit_code
    assert "such as the model's, ended the program (SystemExit(0)); what was finished is kept" in said(capsys)


def test_what_is_no_number_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for option, typed in (("--sigma", "0,25"), ("--alpha", "tiny")):
        assert run(["certify", *EMBEDDED, *NOISE, "--out", "a", option, typed]) == 2
        assert f"expected a number, such as 0.25, got '{typed}'" in said(capsys)
