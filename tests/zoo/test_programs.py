"""What ``--model`` takes beside checkpoints of the zoo."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import holdfast as hf
from holdfast.cli.app import run as command
from holdfast.zoo.huggingface import ImageProcessing
from model_files import CODE, exported, scripted, write_vit
from networks import images, small_net


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "nets", raising=False)  # another folder's
    for name, text in CODE.items():
        Path(name).write_text(text)
    torch.save(small_net().state_dict(), "weights.pt")
    save_file(small_net().state_dict(), "weights.safetensors")
    np.savez("data.npz", images=np.rint(images(3) * 255).astype(np.uint8), labels=np.arange(3))
    return tmp_path


def refused(
    capsys: pytest.CaptureFixture[str], model: str, *more: str, code: int = hf.CheckpointError.exit_code
) -> str:
    words = [
        "certify",
        "--model",
        model,
        *more,
        "--data",
        "data.npz",
        "--sigma",
        "0.25",
        "--n",
        "300",
        "--out",
        "runs/a",
    ]
    assert command([*words, "--no-progress"]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert not Path("runs").exists()
    return " ".join(said.split())


def test_weights_alone_are_answered_with_what_is_missing_and_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "weights.pt")
    assert "weights.pt holds 4 tensors (0.weight, 0.bias, ...) and not the network they belong to" in said
    assert "--model net.py:make, with def make(): net = Net(); net.load_state_dict(torch.load('weights.pt'))" in said
    assert "safetensors.torch.load_file('weights.safetensors')" in refused(capsys, "weights.safetensors")
    assert (
        hf.SmoothedClassifier(hf.load("nets.py:make"), 0.25).fingerprint
        == hf.SmoothedClassifier(small_net(), 0.25).fingerprint
    )


def test_code_that_the_user_names_is_run_and_its_mistakes_are_said_without_a_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own").mkdir()
    Path("own/__init__.py").touch()
    Path("own/nets.py").write_text("from networks import small_net\nnet = small_net()\nNet = small_net\n")
    for name in ("own.nets:net", "own.nets:Net", "own/nets.py:net"):
        assert isinstance(hf.load(name), nn.Module)
    Path("json.py").touch()
    Path("more.py").write_text("def none(): pass\ndef takes(x): return x\nword = 'word'\n")
    Path("leaving.py").write_text("import sys\ndef make():\n    sys.exit()\n")
    Path("left.py").write_text("raise SystemExit('no GPU')\n")
    Path("unparsed.py").write_text("import os\ndef make(:\n")
    Path("importing.py").write_text("import unparsed\n")
    for name, words in (
        ("nets.py:broken", "ZeroDivisionError: division by zero, in"),
        ("leaving.py:make", "leaving.py:make gave no model (SystemExit, in"),
        ("leaving.py:make", "leaving.py, line 3)"),
        ("left.py:make", "left.py:make gave no model (SystemExit: no GPU, in"),
        ("unparsed.py:make", "(SyntaxError: invalid syntax, in"),
        ("unparsed.py:make", "unparsed.py, line 2)"),
        ("importing.py:make", "unparsed.py, line 2)"),
        ("nets.py:absent", "nets.py has no absent; name the function in it that returns a model"),
        ("more.py:none", "more.py:none returned None; it must return a model"),
        ("more.py:takes", "must be a function without arguments that returns a model"),
        ("nowhere.py:make", "no file at nowhere.py; expected FILE.py:FUNCTION"),
        ("no.such.package:make", "No module named 'no'"),
        ("json.py:make", "has the name of a module that is in use, json; rename it"),
        ("nets.py", "name the function in it that returns the network, such as nets.py:make"),
    ):
        assert words in refused(capsys, name)
    with pytest.raises(hf.InvalidArgument, match="expected a torch"):
        hf.SmoothedClassifier(hf.load("more.py:word"), 0.25)


def test_programs_are_known_by_what_they_are_and_damaged_ones_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(small_net()).save("script.pth")
    torch.export.save(exported(small_net()), "net.pt2")
    (folder / "net.zip").write_bytes((folder / "net.pt2").read_bytes())
    for name in ("script.pth", "net.pt2"):
        assert isinstance(hf.load(name), nn.Module)
    assert "is a program of torch.export; rename it to net.pt2" in refused(capsys, "net.zip")
    for name in ("script.pth", "net.pt2"):
        content = (folder / name).read_bytes()
        for number, bad in enumerate((content[: len(content) // 2], b"")):
            path = folder / f"{number}{name}"
            path.write_bytes(bad)
            assert "copy it" in refused(capsys, path.name)
    torch.save(nn.Linear(2, 2), "module.pt")
    assert "load it in a function of yours, --model net.py:make" in refused(capsys, "module.pt")


def test_weights_are_for_timm_and_timm_needs_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--weights is for timm:NAME" in refused(capsys, "nets.py:make", "--weights", "weights.pt")
    pytest.importorskip("timm")
    assert "needs the weights it was trained to: --weights FILE" in refused(capsys, "timm:resnet18")
    assert "timm has no network 'resnet1'; it has" in refused(capsys, "timm:resnet1", "--weights", "weights.pt")
    assert "does not fit timm's resnet18" in refused(capsys, "timm:resnet18", "--weights", "weights.pt")


@pytest.mark.parametrize("broken", ["import nowhere", "raise RuntimeError('operator torchvision::nms does not exist')"])
def test_a_timm_that_cannot_be_imported_is_named_with_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    (folder / "timm.py").write_text(broken)
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    said = refused(capsys, "timm:resnet18", code=hf.InvalidArgument.exit_code)
    assert "timm cannot be imported (" in said
    assert "pip install timm, and a torchvision that fits torch" in said


def test_a_folder_of_transformers_has_its_processing_inside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_vit(folder / "vit")
    net = hf.load("hf:vit")
    from transformers import AutoModelForImageClassification

    plain = AutoModelForImageClassification.from_pretrained("vit").eval()
    grey = torch.rand(2, 1, 12, 12)
    with torch.no_grad():
        assert torch.allclose(net(grey).logits, plain((grey - 0.5) / 0.25).logits, atol=1e-5)
        assert net(torch.rand(2, 1, 6, 6)).logits.shape == (2, 4)
    state = load_file("vit/model.safetensors")
    save_file(
        {name: tensor for name, tensor in state.items() if "classifier" not in name},
        "vit/model.safetensors",
        {"format": "pt"},
    )
    assert "lacks weights of its network (classifier.bias, classifier.weight)" in refused(capsys, "hf:vit")
    torch.save(state, "vit/pytorch_model.bin")
    Path("vit/model.safetensors").unlink()
    assert "is not a readable image classifier of transformers" in refused(capsys, "hf:vit")  # pickles are not read
    Path("vit/preprocessor_config.json").unlink()
    assert "no preprocessor_config.json in vit, which says how images are normalised" in refused(capsys, "hf:vit")
    assert "Nothing is downloaded here" in refused(capsys, "hf:google/vit-base-patch16-224")


def test_a_folders_code_is_not_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_vit(folder / "vit")
    config = json.loads(Path("vit/config.json").read_text())
    config |= {
        "model_type": "strange",
        "auto_map": dict.fromkeys(("AutoConfig", "AutoModelForImageClassification"), "trap.Trap"),
    }
    Path("vit/config.json").write_text(json.dumps(config))
    Path("vit/trap.py").write_text("open('sprung', 'w').close()\nclass Trap: pass\n")
    refused(capsys, "hf:vit")
    assert not Path("sprung").exists()


def test_processing_resizes_cuts_and_normalises_as_it_is_told() -> None:
    def processed(config: dict[str, Any], size: tuple[int, int]) -> Any:
        return ImageProcessing(config)(torch.rand(2, 3, *size))

    cut = {"do_resize": True, "size": {"shortest_edge": 8}, "do_center_crop": True, "crop_size": 6}
    assert processed(cut, (10, 20)).shape == (2, 3, 6, 6)
    assert processed({"size": {"shortest_edge": 8}}, (16, 32)).shape == (2, 3, 8, 16)
    assert processed({"do_resize": False, "size": 4}, (10, 20)).shape == (2, 3, 10, 20)
    grey = torch.full((1, 3, 4, 4), 0.5)
    assert float(ImageProcessing({"do_rescale": False})(grey).mean()) == pytest.approx(127.5)
    offset = ImageProcessing({"rescale_factor": 1 / 127.5, "rescale_offset": True})
    assert float(offset(grey).abs().max()) == pytest.approx(0, abs=1e-6)
    mean = ImageProcessing({"image_mean": [0.5] * 3, "image_std": [0.25] * 3})
    assert float(mean(torch.ones(1, 3, 4, 4)).mean()) == pytest.approx(2)


def test_what_names_no_model_is_answered_with_what_would(folder: Path) -> None:
    (folder / "empty.py").write_text("", encoding="utf-8")
    for name, reason in (
        (
            "https://host/v1/models/net:predict",
            r"is an endpoint, not a file: .*holdfast\.HttpModel\(URL, version=\.\.\.\)",
        ),
        (f"{folder}/empty.py:make", r"empty\.py has no make; name the function in it"),
        ("not_a_package.nets:make", r"gave no model \(ModuleNotFoundError: No module named 'not_a_package'\);"),
    ):
        with pytest.raises(hf.CheckpointError, match=reason):
            hf.load(name)
