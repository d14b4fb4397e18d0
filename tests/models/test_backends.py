"""Every example of docs/models.md, and with each kind of model: a command, a run that is resumed, verified, and served."""

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.cli.app import run as command
from holdfast.runs.certified import CertifiedRun
from holdfast.service.service import Served
from model_files import Endpoint, endpoint, write_all
from serving import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
URL = "http://127.0.0.1:8501/v1/models/net:predict"
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_all(folder)
    if find_spec("timm"):
        import timm
        from safetensors.torch import save_file

        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", num_classes=4).state_dict(), folder / "timm.safetensors")
    return folder


@pytest.fixture
def server(files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Endpoint]:
    monkeypatch.chdir(files)
    monkeypatch.syspath_prepend(files)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (files / "answers.sqlite").unlink(missing_ok=True)
    with endpoint() as found:
        yield found


def example(name: str, server: Endpoint) -> dict[str, Any]:
    """Run the page's Python."""
    python = EXAMPLES[name][0]
    assert len([line for line in python.splitlines() if line]) <= 10
    found: dict[str, Any] = {}
    exec(compile(python.replace(URL, server.url), f"{PAGE.name}: {name}", "exec"), found)
    return found


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
    name: str, server: Endpoint, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = example(name, server)
    assert "for every perturbation up to radius 0.25, the average score stays at least" in capsys.readouterr().out
    smoothed, x = found["smoothed"], inputs_of(found)
    asked = smoothed.certify(x, n=500, seed=5)
    with running(Served(smoothed, x.shape, name)) as service:
        answer = service.certify(x.astype(np.float32), "n=500&seed=5")
        assert hf.Certificate.from_dict(answer.json()).evidence == asked.evidence
    # Killed after two of four; the same call goes on.
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
    again = hf.certify_run(
        example(name, server)["smoothed"], xs, labels, out=tmp_path / "run", settings=settings, seed=5
    )
    assert [entry.certificate for entry in again] == [entry.certificate for entry in meant]
    assert again.config["resumed"]


@pytest.mark.parametrize("name", KINDS)
def test_the_pages_command_makes_a_run_that_is_complete_and_verified(
    name: str, server: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(EXAMPLES[name][1].replace(URL, server.url))
    words[words.index("--out") + 1] = out = str(tmp_path / "run")
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
