"""The command line as a person uses it: what it prints, what it writes, how it exits."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from edited_runs import files_of
from holdfast.cli.app import INTERRUPTED, run
from holdfast.errors import RunError
from holdfast.runs.certified import CertifiedRun
from holdfast.sampling.requests import AnyRequest
from made_runs import unsealed
from networks import images

EMBEDDED = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25"]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "a"
    assert (
        run(["certify", *EMBEDDED, "--out", str(out), "--n", "300", "--skip", "50", "--max", "7", "--seed", "0x5"]) == 0
    )
    return out


def test_certify_makes_a_run_that_opens(certified: Path) -> None:
    found = hf.Run.open(certified)
    assert isinstance(found, CertifiedRun)
    assert [entry.index for entry in found] == [0, 1000, 2000, 3000, 4000, 5000, 6000]
    assert found.config["max"] == 7
    assert found.config["weights"]["sigma"] == "0.25"
    assert found.entries[0].certificate.seed == 5


def test_certify_prints_a_table_and_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "b"
    options = ["--n", "60", "--n0", "20", "--max", "2", "--claims", "score", "--sides", "both", "--thresholds", "30"]
    assert run(["certify", *EMBEDDED, "--out", str(out), *options]) == 0
    text = capsys.readouterr().out
    assert "score > 0.5" in text
    assert "margin" not in text
    assert "holdfast report" in text
    found = hf.Run.open(out)
    assert found.config["method"] == "cdf-berk-jones-30"
    assert isinstance(found, CertifiedRun)
    assert found.entries[0].certificate.score.upper(0.0) <= 1.0


def test_the_same_seed_gives_the_same_run(certified: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    options = ["--n", "300", "--skip", "50", "--max", "7", "--seed", "5", "--batch", "17"]
    assert run(["certify", *EMBEDDED, "--out", str(again), *options]) == 0
    first, second = hf.Run.open(certified), hf.Run.open(again)
    assert isinstance(first, CertifiedRun)
    assert isinstance(second, CertifiedRun)
    assert [e.certificate for e in first] == [e.certificate for e in second]


def test_report_as_json_is_one_document_with_every_number(certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(certified), "--format", "json", "--threshold", "0.5,0.7", "--radii", "0,0.1"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = document["runs"][0]["certified_accuracy"]
    # Two measures x three methods x two thresholds x two radii, and the label at two radii.
    assert len(rows) == 2 * 3 * 2 * 2 + 2
    opened = hf.Run.open(certified)
    for row in rows:
        expected = opened.certified_accuracy(
            row["measure"],
            radii=[row["radius"]],
            thresholds=[] if row["threshold"] is None else [row["threshold"]],
            method=row["method"],
        )
        assert row["value"] == expected[0, 0]
        assert row["guaranteed"]


def test_report_as_text_draws_figures(certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--figures", str(tmp_path), "--methods", "cdf-dkw,naive-empirical-mean"]
    assert run(["report", str(certified), *options]) == 0
    text = capsys.readouterr().out
    assert "not a certificate" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("figure:", "report:"))) <= 80
    assert (tmp_path / "report.html").is_file()
    for measure in ("score", "margin", "label"):
        picture = (tmp_path / f"certified_accuracy_{measure}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5_000
        assert "<svg" in (tmp_path / f"certified_accuracy_{measure}.svg").read_text()


def test_import_report_and_export_of_a_log(certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, again = tmp_path / "margin_sigma0.25.tsv", tmp_path / "again.tsv"
    assert run(["export", str(certified), "--measure", "margin", "--out", str(log)]) == 0
    assert run(["import", str(log), "--out", str(tmp_path / "p")]) == 0
    assert run(["export", str(tmp_path / "p"), "--measure", "margin", "--out", str(again)]) == 0
    assert log.read_bytes() == again.read_bytes()
    page = ["--format", "html", "--out", str(tmp_path / "page.html")]
    assert run(["report", str(tmp_path / "p"), str(certified), "--radii", "0,0.25", *page]) == 0
    assert "imported 7 inputs (margin, sigma 0.25)" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in files_of(tmp_path / "p")}
    assert run(["import", str(log), "--out", str(tmp_path / "p")]) == 0
    assert "complete: " in capsys.readouterr().out
    assert run(["import", str(log), "--sigma", "0.5", "--out", str(tmp_path / "p")]) == hf.InvalidArgument.exit_code
    assert {path: path.read_bytes() for path in files_of(tmp_path / "p")} == before
    assert run(["export", str(certified), "--measure", "margin", "--out", str(log)]) == hf.RunError.exit_code
    assert run(["report", str(tmp_path / "p"), "--radii", "0.1"]) == hf.InvalidArgument.exit_code


def test_compact_writes_a_copy_that_reports(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    assert run(["compact", str(certified), "--bins", "1024", "--out", str(small)]) == 0
    assert "7 certificates" in capsys.readouterr().out
    assert run(["report", str(small), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["inputs"] == 7
    before = {path: path.read_bytes() for path in files_of(small)}
    assert run(["compact", str(certified), "--bins", "1024", "--out", str(small)]) == 0
    assert "complete: " in capsys.readouterr().out
    assert run(["compact", str(certified), "--out", str(small)]) == hf.RunError.exit_code
    assert {path: path.read_bytes() for path in files_of(small)} == before
    assert run(["compact", str(certified), "--bins", "1000", "--out", str(small / "x")]) == hf.InvalidArgument.exit_code


def test_a_run_with_a_missing_part_is_not_passed_on_as_whole(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(certified, torn)
    unsealed(torn, inputs=9)  # as if a file with two were gone
    code, text = refused(capsys, "compact", str(torn), "--out", str(tmp_path / "small"))
    assert code == hf.RunError.exit_code
    assert "missing" in text
    assert run(["export", str(torn), "--measure", "score", "--out", str(tmp_path / "log.tsv")]) == 0
    assert "of 9 inputs" in " ".join(capsys.readouterr().out.split())
    assert run(["report", str(torn), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["status"] == "incomplete"


@pytest.mark.slow
def test_train_then_certify_then_train_again_gives_the_same_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    pictures = rng.random((300, 8, 8)) * 0.2 + 0.7 * labels[:, None, None] * (np.arange(8) < 4)
    data = tmp_path / "toys.npz"
    np.savez(
        data,
        train_images=pictures.astype(np.float32),
        train_labels=labels,
        test_images=(pictures[:20] * 255).astype(np.uint8),
        test_labels=labels[:20, None],
    )
    weights, again = tmp_path / "net.safetensors", tmp_path / "again.safetensors"
    for path in (weights, again):
        assert (
            run(["train", "--data", str(data), "--sigma", "0.2", "--epochs", "6", "--batch", "32", "--out", str(path)])
            == 0
        )
    from safetensors.torch import load_file

    first, second = load_file(weights), load_file(again)
    assert all(torch.equal(first[name], second[name]) for name in first)
    out = tmp_path / "run"
    assert (
        run(
            ["certify", "--model", str(weights), "--data", str(data), "--sigma", "0.2", "--out", str(out), "--n", "200"]
        )
        == 0
    )
    assert hf.Run.open(out).correct.mean() > 0.9
    before = weights.read_bytes()
    again_ = ["train", "--data", str(data), "--sigma", "0.2", "--batch", "32", "--out", str(weights)]
    assert run([*again_, "--epochs", "6"]) == 0
    assert run([*again_, "--epochs", "7"]) == hf.CheckpointError.exit_code
    assert weights.read_bytes() == before
    assert run(["train", "--data", str(data), "--sigma", "0.2", "--out", str(weights)]) == hf.CheckpointError.exit_code
    assert run(["train", "--data", str(data), "--sigma", "0.2", "--out", "net.pt"]) == hf.InvalidArgument.exit_code


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, " ".join(captured.err.split())


def test_wrong_arguments_are_refused_with_distinct_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x")]
    good = ["certify", *EMBEDDED, *out]
    (tmp_path / "text.npz").write_text("not an archive")
    (tmp_path / "weights.safetensors").write_bytes(b"not weights")
    cases = [
        (2, "alpha must be in (0, 0.5]", [*good, "--alpha", "0.7"]),
        (2, "sigma must be a positive number", ["certify", *EMBEDDED[:-1], "-1", *out]),
        (2, "n = 5 can never certify", [*good, "--n", "5"]),
        (2, "unknown measure 'confidence'", [*good, "--claims", "score,confidence"]),
        (2, "--band must be one of", [*good, "--band", "kolmogorov"]),
        (2, "precision must be one of", [*good, "--precision", "int4"]),
        (2, "--engine must be one of", [*good, "--engine", "spark"]),
        (2, "--skip must be a whole number", [*good, "--skip", "0"]),
        (2, "--seed must be a whole number", [*good, "--seed", "random"]),
        (2, "device must be", [*good, "--device", "gpu"]),
        (4, 'outputs="logits"', [*good, "--outputs", "probabilities", "--n", "100"]),
        (5, "no checkpoint at", ["certify", "--model", "nowhere.pt", *EMBEDDED[2:], *out]),
        (5, "cifar10-sigma0.50", ["certify", "--model", "cifar10-sigma0.5", *EMBEDDED[2:], *out]),
        (
            5,
            "not a readable safetensors file",
            ["certify", "--model", str(tmp_path / "weights.safetensors"), *EMBEDDED[2:], *out],
        ),
        (6, "unknown dataset 'nowhere'", ["certify", *EMBEDDED[:2], "--data", "nowhere", "--sigma", "1", *out]),
        (
            6,
            "not a readable .npz",
            ["certify", *EMBEDDED[:2], "--data", str(tmp_path / "text.npz"), "--sigma", "1", *out],
        ),
        (6, "test split", ["certify", *EMBEDDED, "--split", "train", *out]),
        (7, "exists already", ["certify", *EMBEDDED, "--out", str(tmp_path), "--n", "100", "--max", "1"]),
        (7, "is not a run", ["report", str(tmp_path)]),
        (7, "no log at", ["import", "nowhere.tsv", *out]),
        (2, "takes numbers separated by commas", ["report", str(tmp_path), "--radii", "a,b"]),
        (2, "--format must be one of", ["report", str(tmp_path), "--format", "pdf"]),
        (2, "unknown method", ["report", str(tmp_path), "--methods", "magic"]),
        (2, "No such command", ["certfy"]),
        (2, "Missing option", ["certify"]),
    ]
    for expected, message, arguments in cases:
        code, text = refused(capsys, *arguments)
        assert (code, message in text) == (expected, True), f"{arguments}: exit {code}, {text}"
    assert not (tmp_path / "x").exists()


def test_certifying_with_another_sigma_than_trained_with_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--n", "60", "--n0", "5", "--max", "1", "--out", str(tmp_path / "a")]
    assert run(["certify", *EMBEDDED[:4], "--sigma", "0.5", *options]) == 0
    assert "trained with sigma = 0.25" in " ".join(capsys.readouterr().err.split())


def test_images_that_are_not_images_are_refused_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "d.npz", images=np.full((3, 28, 28), 7.0), labels=np.zeros(3, dtype=np.int64))
    code, text = refused(
        capsys,
        "certify",
        *EMBEDDED[:2],
        "--data",
        str(tmp_path / "d.npz"),
        "--sigma",
        "0.2",
        "--out",
        str(tmp_path / "a"),
    )
    assert code == hf.InvalidInput.exit_code
    assert "[0, 1] is expected" in text
    np.savez(tmp_path / "e.npz", images=images(2), labels=np.zeros(2, dtype=np.int64))
    code, text = refused(
        capsys,
        "certify",
        *EMBEDDED[:2],
        "--data",
        str(tmp_path / "e.npz"),
        "--sigma",
        "0.2",
        "--out",
        str(tmp_path / "a"),
    )
    assert code == hf.ModelError.exit_code
    assert "failed on a batch" in text


@pytest.mark.slow
def test_demo_in_small_says_everything_it_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert run(["demo", "--n", "200", "--max", "10", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    for promised in (
        "CDF (Berk-Jones)",
        "CDF (DKW)",
        "naive (Hoeffding)",
        "score > 0.5",
        "margin > 0",
        "label",
        "Three certificates",
        "Where to look next",
    ):
        assert promised in text
    assert " ".join(text.split()).count("All of it holds with probability at least 99.9%") == 3
    pictures = sorted(path.name for path in (out / "figures").glob("*.png"))
    assert pictures == [
        "certified_accuracy_label.png",
        "certified_accuracy_margin.png",
        "certified_accuracy_score.png",
        "examples.png",
    ]
    assert run(["demo", "--n", "200", "--max", "10", "--out", str(out)]) == 0
    assert "complete: 10 inputs, and nothing was left to do" in capsys.readouterr().err
    assert run(["demo", "--n", "300", "--max", "10", "--out", str(out)]) == hf.RunError.exit_code


@pytest.mark.slow
def test_an_interrupted_demo_names_the_command_that_resumes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = hf.Local.run

    def interrupted(*args: Any, **kwargs: Any) -> Iterator[AnyRequest]:
        yield from itertools.islice(whole(*args, **kwargs), 2)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    command = ["demo", "--n", "200", "--n0", "10", "--max", "4"]
    with monkeypatch.context() as patch:
        patch.setattr(hf.Local, "run", interrupted)
        assert run(command) == INTERRUPTED
    said = " ".join(capsys.readouterr().err.split())
    assert "the same command with --out runs/demo goes on from there" in said
    assert run([*command, "--out", "runs/demo"]) == 0
    assert "resuming: 2 of 4 were finished" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "demo-2").exists()


def test_classes_of_a_mass_may_be_named_in_any_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--n", "60", "--n0", "5", "--max", "1", "--out", str(tmp_path / "a")]
    assert run(["certify", *EMBEDDED, *options, "--claims", "mass-5-3"]) == 0
    assert hf.Run.open(tmp_path / "a").config["claims"] == ["mass-3-5"]
    question = ["--at-least", "0.5", "--radius", "0.1", "--max", "1", "--n", "500", "--measure", "mass-5-3"]
    assert run(["decide", *EMBEDDED, *question]) == 0
    for typed, wrong in (("mass", "mass"), ("mass-x", "mass-x"), ("labels", "labels"), ("score,mass-3,5", "5")):
        code, text = refused(capsys, "certify", *EMBEDDED, *options, "--claims", typed)
        assert code == hf.InvalidArgument.exit_code
        assert (
            f"--claims takes 'label' and measures: unknown measure '{wrong}'; expected score, margin, or mass-" in text
        )


def test_doctor_finds_this_installation_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert "closed-form certificate" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_keeps_the_finished_certificates_and_exits_with_130(tmp_path: Path) -> None:
    out = tmp_path / "a"
    command = [
        sys.executable,
        "-c",
        "from holdfast.cli.app import main; main()",
        "certify",
        *EMBEDDED,
        "--out",
        str(out),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--n", "1500", "--n0", "10"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    waited = time.monotonic()
    while not out.exists() and time.monotonic() - waited < 120:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    kept = hf.Run.open(out)
    assert 0 < len(kept) < 500
    assert kept.config["status"] == "interrupted"
    assert f"holdfast report {out}" in " ".join(errors.split())


def test_a_narrow_terminal_gets_every_number_in_blocks(
    certified: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    radii = [f"{k / 100:g}" for k in range(0, 70, 5)]
    options = ["--threshold", "0.5", "--radii", ",".join(radii), "--figures", str(tmp_path)]
    assert run(["report", str(certified), *options]) == 0
    text = capsys.readouterr().out
    assert "…" not in text
    for radius in radii:
        assert f" {radius}" in text


@pytest.mark.parametrize("change", ["negative label", "one class", "bytes as floats", "nan"])
def test_data_that_cannot_be_trained_on_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    pictures, labels = np.random.default_rng(0).random((12, 8, 8)), np.arange(12) % 3
    if change == "negative label":
        labels[0] = -1
    elif change == "one class":
        labels[:] = 1
    elif change == "bytes as floats":
        pictures *= 255
    else:
        pictures[0, 0, 0] = np.nan
    np.savez(tmp_path / "d.npz", train_images=pictures, train_labels=labels)
    code, _ = refused(
        capsys, "train", "--data", str(tmp_path / "d.npz"), "--sigma", "0.2", "--out", str(tmp_path / "n.safetensors")
    )
    assert code == hf.DatasetError.exit_code
    assert not (tmp_path / "n.safetensors").exists()


def test_a_place_where_weights_cannot_be_written_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, text = refused(
        capsys,
        "train",
        "--data",
        "fashion-mnist",
        "--split",
        "test",
        "--sigma",
        "0.2",
        "--out",
        str(tmp_path / "file" / "n.safetensors"),
    )
    assert code == hf.CheckpointError.exit_code
    assert "epoch" not in text


def test_labels_the_model_does_not_know_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "d.npz", images=np.zeros((3, 28, 28), dtype=np.uint8), labels=np.array([0, 1, 12]))
    code, text = refused(
        capsys,
        "certify",
        *EMBEDDED[:2],
        "--data",
        str(tmp_path / "d.npz"),
        "--sigma",
        "0.2",
        "--out",
        str(tmp_path / "a"),
    )
    assert code == hf.DatasetError.exit_code
    assert "labels up to 12" in text


def test_figures_that_cannot_be_written_are_reported(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, text = refused(capsys, "report", str(certified), "--figures", str(tmp_path / "file"))
    assert code == hf.RunError.exit_code
    assert "choose another place" in text


def test_decide_says_what_each_answer_cost(capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--at-least", "0.7", "--radius", "0.1", "--skip", "100", "--n", "5000", "--seed", "1"]
    assert run(["decide", *EMBEDDED, *question]) == 0
    text = capsys.readouterr().out
    assert text.count("certified") >= 5
    assert re.search(
        r"\d of 5 certified, \d of them for the right class, with [\d,]+ noisy copies", " ".join(text.split())
    )
    assert run(["decide", *EMBEDDED, "--at-least", "1.5", "--radius", "0.1"]) == hf.InvalidArgument.exit_code


def test_decide_keeps_what_was_decided_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = hf.Local.run

    def interrupted(*args: Any, **kwargs: Any) -> Iterator[AnyRequest]:
        yield from itertools.islice(whole(*args, **kwargs), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(hf.Local, "run", interrupted)
    question = ["--at-least", "0.7", "--radius", "0.1", "--skip", "100", "--n", "5000", "--seed", "1"]
    assert run(["decide", *EMBEDDED, *question]) == INTERRUPTED
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("input ") == 2
    assert re.search(r"\d of 2 certified \(3 more were not decided\), \d of them for the right class", text)


def test_serve_opens_a_browser_answers_until_interrupted_and_says_when_the_port_is_taken(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": str(browser), "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"serving fashion-mnist at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C stops\)", said)
        assert found, said
        url = f"http://127.0.0.1:{found[1]}"
        with urllib.request.urlopen(f"{url}/v1/model") as answer:
            model = json.load(answer)
        until = time.monotonic() + 10
        while not (tmp_path / "opened").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert (tmp_path / "opened").read_text() == f"{url}/"
        assert (model["sigma"], model["shape"], model["samples"]) == (0.25, [1, 28, 28], 20)
        # The port is taken: a second one refuses, and says what to do.
        assert run(["serve", "--no-open", "--port", found[1]]) == RunError.exit_code
    finally:
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.strip() == "stopped"
    assert errors == ""


def test_serve_refuses_what_it_cannot_do_before_it_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--no-open", "--host", "0.0.0.0"]) == hf.InvalidArgument.exit_code
    assert "needs an API key" in capsys.readouterr().err
    assert run(["serve", "--no-open", "--api-key", "short"]) == hf.InvalidArgument.exit_code
    assert run(["serve", "--no-open", "--model", "/nowhere.safetensors"]) == hf.CheckpointError.exit_code
    for option, given in (
        ("--measures", "colour"),
        ("--drift-every", "0"),
        ("--queue", "0"),
        ("--max-copies", "1e12"),
        ("--max-seconds", "nan"),
        ("--max-seconds", "0"),
        ("--max-upload", "0"),
    ):
        loaded = ["serve", "--no-open", "--model", "/nowhere.safetensors", option, given]
        assert run(loaded) == hf.InvalidArgument.exit_code, "refused only after the model was looked for"
        assert f"holdfast: {option}" in capsys.readouterr().err
    assert run(["serve", "--no-open", "--measures", "mass-3-99"]) == hf.InvalidArgument.exit_code
    assert "mass-3-99 names class 99, but the model has 10 classes" in " ".join(capsys.readouterr().err.split())
    script = "import sys; sys.modules['fastapi'] = None; from holdfast.cli.app import run; sys.exit(run(['serve', '--no-open']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == hf.InvalidArgument.exit_code
    assert "pip install 'holdfast-certify[serve]'" in " ".join(done.stderr.split())


@pytest.mark.parametrize("module", ["holdfast.version", "typer"])
def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback(module: str) -> None:
    script = f"""
import sys

class Interrupted:
    def find_spec(name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted)
from holdfast.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_signal_that_comes_while_the_arguments_are_read_has_its_own_exit_code_too() -> None:
    """There the library that reads them turns an interrupt into an exit code of its own."""
    script = """
import os, signal, sys
from typer.core import TyperGroup
from holdfast.cli import app

def interrupted(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)

TyperGroup.make_context = interrupted
sys.argv = ["holdfast", "doctor"]
app.main()
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 128 + signal.SIGTERM


def test_a_signal_that_comes_after_the_end_ends_the_interpreter_without_a_word() -> None:
    script = """
import atexit, os, signal, sys
from holdfast.cli import app

atexit.register(os.kill, os.getpid(), signal.SIGTERM)
sys.argv = ["holdfast", "--version"]
app.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_who_ends_the_process_gets_what_ctrl_c_gets(tmp_path: Path, name: str) -> None:
    out, number = tmp_path / "a", signal.Signals[name]
    command = ["certify", *EMBEDDED, "--out", str(out), "--n", "300", "--n0", "10", "--max", "200"]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    began = time.monotonic()
    while not list(out.glob("certificates/part-*.parquet")) and time.monotonic() - began < 120:
        time.sleep(0.01)
    process.send_signal(number)
    said = " ".join(process.communicate(timeout=60)[1].split())
    assert process.returncode == 128 + number
    assert "the certificates finished so far are in" in said
    assert said.endswith("holdfast: interrupted")
    found = hf.Run.open(out)
    assert found.config["status"] == "interrupted"
    assert 0 < len(found) < 200
