"""Every example of docs/models.md, and with each kind of model: a command, a run that is resumed, verified, and served."""

import re
import runpy
import shlex
import socket
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.cli.app import run as command
from holdfast.cli.models import open_model
from holdfast.models.compile_rule import CompileRule
from holdfast.runs.certified import CertifiedRun
from holdfast.service.service import Served
from model_files import write_tables
from serving import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
PORT = "8501"
EXAMPLES = {
    command.rpartition("/")[2].strip(): (python, command)
    for python, command in re.findall(
        r"```python\n(.*?)```\n\n```console\n\$ holdfast (.*?)```", PAGE.read_text(), flags=re.S
    )
}
KINDS = [
    pytest.param(
        name, marks=pytest.mark.skipif(name == "timm" and not find_spec("timm"), reason="timm is not installed")
    )
    for name in EXAMPLES
]


@pytest.fixture(autouse=True)
def never_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine compiling would pay before a run is resumed, and last digits would differ."""
    monkeypatch.setattr(CompileRule, "pays", lambda *_: False)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that is free for the page's endpoint; the test runs in an empty folder but for the reader's tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    write_tables(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def example(name: str, port: str) -> dict[str, Any]:
    """Run the page's Python, saved as the file that its command names, if that names one."""
    python, said = EXAMPLES[name]
    assert len([line for line in python.splitlines() if line]) <= 10
    saved = re.search(r"--model (\w+\.py):", said)
    path = Path(saved[1] if saved else "pasted.py")
    path.write_text(python.replace(PORT, port))
    torch.manual_seed(0)  # for the untrained ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of its exporters
        return runpy.run_path(str(path), run_name="__main__")


def option(name: str, wanted: str) -> str | None:
    """What the page's command says after an option."""
    words = shlex.split(EXAMPLES[name][1])
    return words[words.index(wanted) + 1] if wanted in words else None


def named(name: str, port: str) -> Any:
    """The model that the command names."""
    weights = option(name, "--weights")
    return open_model((option(name, "--model") or "").replace(PORT, port), None, Path(weights) if weights else None).net


def inputs_of(found: dict[str, Any]) -> Any:
    """What its certificate was of."""
    if "x" in found:
        return np.asarray(found["x"])
    return np.asarray(found["Z"][0] if "Z" in found else found["scaler"].transform(found["X"])[0])


def test_the_page_has_every_kind() -> None:
    assert set(EXAMPLES) == {
        "torch",
        "export",
        "script",
        "vit",
        "timm",
        "onnx",
        "forest",
        "logistic",
        "function",
        "http",
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_pages_python_certifies_and_its_model_is_served_and_resumed(
    name: str, port: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = example(name, port)
    assert "for every perturbation up to radius 0.25, the average score stays at least" in capsys.readouterr().out
    smoothed, x = found["smoothed"], inputs_of(found)
    asked = smoothed.certify(x, n=500, seed=5)
    with running(Served(smoothed, x.shape, name)) as service:
        answer = service.certify(x.astype(np.float32), "n=500&seed=5")
        assert hf.Certificate.from_dict(answer.json()).evidence == asked.evidence
    # Killed after two of four; the same call goes on, with the model that the command names.
    xs, labels, settings = np.stack([x] * 4).astype(np.float32), [0, 1, 0, 1], hf.Settings(n=300, n0=20)
    meant = hf.certify_run(smoothed, xs, labels, out=tmp_path / "whole", settings=settings, seed=5)
    stream = hf.SmoothedClassifier.stream

    def interrupted(self: hf.SmoothedClassifier, *given: Any, **options: Any) -> Iterator[hf.Certificate]:
        for count, certificate in enumerate(stream(self, *given, **options)):
            if count == 2:
                raise KeyboardInterrupt
            yield certificate

    monkeypatch.setattr(hf.SmoothedClassifier, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hf.certify_run(smoothed, xs, labels, out=tmp_path / "run", settings=settings, seed=5)
    monkeypatch.setattr(hf.SmoothedClassifier, "stream", stream)
    assert len(hf.Run.open(tmp_path / "run")) == 2
    resumed = hf.SmoothedClassifier(named(name, port), sigma=0.25, outputs=option(name, "--outputs") or "logits")
    again = hf.certify_run(resumed, xs, labels, out=tmp_path / "run", settings=settings, seed=5)
    assert [entry.certificate for entry in again] == [entry.certificate for entry in meant]
    assert again.config["resumed"]


@pytest.mark.parametrize("name", KINDS)
def test_the_pages_command_makes_a_run_that_is_complete_and_verified(
    name: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example(name, port)
    words = shlex.split(EXAMPLES[name][1].replace(PORT, port))
    out = words[words.index("--out") + 1]
    certify = [*words, "--n", "300", "--max", "2", "--no-progress"]
    assert command(certify) == 0, capsys.readouterr().err
    assert command(certify) == 0
    assert "complete: 2 inputs, and nothing was left to do" in capsys.readouterr().err
    run = hf.Run.open(out)
    assert isinstance(run, CertifiedRun)
    assert run.fingerprint
    given = [
        word
        for option in ("--model", "--weights", "--data", "--outputs")
        if option in words
        for word in words[words.index(option) :][:2]
    ]
    assert command(["verify", out, *given, "--resample", "1", "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "answers to the spot check: ok" in said
    assert "fresh noise for 1 inputs; what is true is flagged with probability 0.001 at most: ok" in said
