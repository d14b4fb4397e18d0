"""A temperature: chosen on held-out images, written into the weights, part of the fingerprint."""

from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.errors import DatasetError, InvalidArgument, ModelError
from holdfast.models.fingerprint import fingerprint
from holdfast.train.temperature import (
    CANDIDATES,
    FEWEST,
    SHARE,
    apply_temperature,
    certified_brier,
    choose_temperature,
    hold_out,
)
from holdfast.zoo.architecture import Architecture, architecture_names
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.datasets.labelled import LabelledInputs

CPU = torch.device("cpu")


class Brightness(torch.nn.Module):
    """Two classes by the mean pixel, with confidence ``scale``."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.head = torch.nn.Linear(1, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-scale], [scale]]))
            self.head.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(x.mean((1, 2, 3))[:, None] - 0.5)
        return logits


def images(count: int) -> LabelledInputs:
    """Labels drawn with the probabilities that Brightness(2) gives."""
    rng = np.random.default_rng(0)
    bright = rng.random(count).astype(np.float32)
    labels = (rng.random(count) < 1 / (1 + np.exp(-4 * (bright - 0.5)))).astype(np.int64)
    pixels = np.broadcast_to(bright[:, None, None, None], (count, 1, 2, 2)).copy()
    return LabelledInputs("bright", pixels, labels, np.arange(count))


@pytest.mark.parametrize("factor", [0.25, 1.0, 8.0])
def test_a_confidence_that_is_off_by_a_factor_is_put_right(factor: float) -> None:
    data = images(4000)
    found = choose_temperature(Brightness(2 * factor), data, sigma=0.01, seed=0, device=CPU)
    assert found == pytest.approx(factor, rel=0.2)
    assert found in CANDIDATES


@pytest.mark.parametrize("ratio", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_brier_score_is_the_worst_that_theorem_2_allows_at_the_copies(classes: int, ratio: float) -> None:
    logits = 2 * torch.randn(50, 1, classes, generator=torch.Generator().manual_seed(classes), dtype=torch.float64)
    scores = logits.softmax(2)[:, 0]
    predicted = int(scores.mean(0).argmax())
    own = hf.ScoreSamples(scores[:, predicted].numpy(), support=(0.0, 1.0), sigma=1.0)
    curve = hf.bound(own, alpha=0.01, method=hf.CDF(hf.Empirical()), sides="both")
    q = np.linspace(float(curve.lower(ratio)), float(curve.upper(ratio)), 101)[:, None]
    for label in range(classes):
        rest = np.eye(classes - 1)  # convex: the worst is that one class has what is left
        others = [k for k in range(classes) if k != predicted]
        p = np.zeros((101, classes - 1, classes))
        p[:, :, predicted] = q
        p[:, :, others] = (1 - q)[:, :, None] * rest
        worst = ((p - np.eye(classes)[label]) ** 2).sum(2).max()
        assert certified_brier(logits, torch.tensor([label]), ratio) == pytest.approx(worst, abs=1e-9)


@pytest.mark.parametrize("name", architecture_names())
def test_logits_are_divided_and_the_fingerprint_is_another(name: str) -> None:
    torch.manual_seed(0)
    size = 64 if name in ("resnet50", "efficientnet-lite0") else 16
    net = Architecture(name, 3, size, 4).build().eval()
    example = torch.rand(2, 3, size, size)
    with torch.no_grad():
        before, mark = net(example), fingerprint(net)
        apply_temperature(net, 0.3, example)
        assert torch.allclose(net(example), before / 0.3, rtol=1e-4, atol=1e-5)
    assert fingerprint(net) != mark


def test_networks_and_numbers_that_a_temperature_cannot_divide_are_refused() -> None:
    example = torch.rand(2, 1, 2, 2)
    with pytest.raises(ModelError, match="last linear layer"):
        apply_temperature(torch.nn.Sequential(Brightness(2.0), torch.nn.Softmax(1)), 0.3, example)
    with pytest.raises(InvalidArgument, match="temperature must be positive"):
        apply_temperature(Brightness(2.0), 0.0, example)


def test_what_is_held_out_is_not_trained_on_and_too_little_is_refused() -> None:
    data = images(SHARE * FEWEST)
    held = hold_out(data, 0)
    assert len(held.out) == FEWEST
    assert sorted([*held.out.tolist(), *held.train.tolist()]) == list(range(len(data)))
    assert not np.array_equal(held.out, hold_out(data, 1).out)
    with pytest.raises(
        DatasetError, match=r"expected at least 4,000 images, got 3,999; give the temperature as a number"
    ):
        hold_out(data.at(slice(0, SHARE * FEWEST - 1)), 0)


def test_the_command_writes_the_temperature_into_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    count = SHARE * FEWEST
    labels = rng.integers(0, 2, count)
    pixels = (rng.random((count, 1, 4, 4)) * 60 + 100 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "d.npz", train_images=pixels, train_labels=labels)
    command = ["train", "--data", str(tmp_path / "d.npz"), "--sigma", "0.25", "--epochs", "1", "--no-progress"]
    nets = {}
    for name, options in {"none": [], "two": ["--temperature", "2"], "auto": ["--temperature", "auto"]}.items():
        path = tmp_path / f"{name}.safetensors"
        assert holdfast([*command, "--out", str(path), *options]) == 0
        nets[name] = load_checkpoint(path)
    x = torch.rand(3, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(nets["two"].net(x), nets["none"].net(x) / 2, atol=1e-6)
    assert "temperature" not in nets["none"].notes
    assert float(nets["two"].notes["temperature"]) == 2
    assert float(nets["auto"].notes["temperature"]) in CANDIDATES
    assert "chosen on 200 images that were held out" in "".join(capsys.readouterr())
    for wrong in ("0", "1e-300", "inf", "nan", "warm"):
        assert holdfast([*command, "--out", str(tmp_path / "x.safetensors"), "--temperature", wrong]) != 0
        assert "--temperature takes a number from 0.001 to 1000, or 'auto'" in "".join(capsys.readouterr())
