"""Training with noise: images move by whole pixels, and a seed repeats itself."""

import copy
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.cli.app import run as holdfast
from holdfast.errors import InvalidArgument
from holdfast.train.augmentation import mirrored, shifted
from holdfast.train.capture import compile_blocks
from holdfast.train.loop import train
from holdfast.train.objectives import Consistency
from holdfast.train.recipe import Epoch, Recipe
from holdfast.train.temperature import FEWEST, SHARE
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.labelled import LabelledInputs

CPU = torch.device("cpu")
SMALL = Architecture("small-cnn", 1, 8, 2)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_few_steps_are_enough_for_the_schedule(steps: int, optimizer: str) -> None:
    count, images = np.arange(4 * steps), np.zeros((4 * steps, 1, 8, 8), np.uint8)
    images.flags.writeable = False  # as they come from a file of IDX
    data = LabelledInputs("made up", images, count % 2, count)
    recipe = Recipe(0.25, epochs=1, batch=4, optimizer=optimizer)
    seen: list[Epoch] = []
    train(SMALL, data, recipe, device=CPU, on_epoch=seen.append)
    assert math.isfinite(seen[0].loss)


def test_images_move_by_whole_pixels_and_zeros_move_in() -> None:
    torch.manual_seed(0)
    images = torch.arange(1.0, 17.0).reshape(1, 1, 4, 4).repeat(200, 3, 1, 1)
    moved = shifted(images, 2)
    assert moved.shape == images.shape
    padded = torch.nn.functional.pad(images[:1], (2, 2, 2, 2))
    allowed = {
        tuple(padded[0, 0, row : row + 4, column : column + 4].flatten().tolist())
        for row in range(5)
        for column in range(5)
    }
    seen = {tuple(image[0].flatten().tolist()) for image in moved}
    assert seen <= allowed
    assert len(seen) > 15
    assert torch.equal(moved[:, 0], moved[:, 2])  # channels move together
    assert torch.equal(shifted(images, 0), images)


def test_about_half_of_the_images_are_mirrored() -> None:
    torch.manual_seed(0)
    images = torch.rand(400, 1, 3, 3)
    found = mirrored(images)
    turned = (found == images.flip(-1)).flatten(1).all(1)
    kept = (found == images).flatten(1).all(1)
    assert bool((turned | kept).all())
    assert 160 < int(turned.sum()) < 240


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_network_learns_what_can_be_learned_and_a_seed_repeats_itself(precision: str) -> None:
    data = bright(96, 0)
    recipe = Recipe(
        0.1,
        6,
        32,
        0.05,
        optimizer="sgd",
        shift=1,
        objective=Consistency(2, consistency=1.0, sharpness=0.1),
        precision=precision,
    )
    epochs: list[Epoch] = []
    nets = [train(SMALL, data, recipe, device=CPU, on_epoch=epochs.append) for _ in range(2)]
    assert epochs[5].accuracy > 0.9
    assert epochs[:6] == epochs[6:]
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


def bright(count: int, seed: int) -> LabelledInputs:
    """Two classes that a network tells apart at once."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    pixels = (rng.random((count, 1, 8, 8)) * 60 + 160 * labels[:, None, None, None]).astype(np.uint8)
    return LabelledInputs("bright", pixels, labels, np.arange(count))


def test_the_accuracy_on_held_out_images_is_theirs_and_changes_no_weights() -> None:
    data, others = bright(96, 0), bright(50, 1)
    swapped = LabelledInputs("swapped", others.images, 1 - others.labels, others.indices)
    recipe = Recipe(0.1, 4, 32, 0.05, optimizer="sgd", objective=Consistency())
    nets, told = [], []
    for held_out in (None, others, swapped):
        epochs: list[Epoch] = []
        net = train(SMALL, data, recipe, device=CPU, held_out=held_out, on_epoch=epochs.append)
        nets.append(net.state_dict())
        told.append([epoch.held_out for epoch in epochs])
    assert told[0] == [None] * 4
    right, wrong = (np.array(each, dtype=float) for each in told[1:])
    assert right[-1] > 0.9
    assert np.allclose(right + wrong, 1)  # the same noise, the other labels
    assert all(torch.equal(nets[0][name], net[name]) for net in nets[1:] for name in net)


def test_the_command_tells_the_accuracy_on_images_that_are_not_trained_on_if_it_has_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, test = bright(SHARE * FEWEST, 0), bright(1_500, 1)
    wrong = 1 - test.labels
    train_part = {"train_images": data.images, "train_labels": data.labels}
    archives: dict[str, dict[str, Any]] = {
        "both": {**train_part, "test_images": test.images, "test_labels": wrong},
        "other": {**train_part, "test_images": test.images[..., :4, :4], "test_labels": wrong},
        "one": {"images": data.images, "labels": data.labels},
        "train": train_part,
    }
    found: dict[tuple[str, ...], float | None] = {}
    for name, *options in (
        ("both",),
        ("both", "--split", "test"),
        ("both", "--temperature", "auto"),
        *(("other",), ("one",), ("train",)),
    ):
        np.savez(tmp_path / "d.npz", **archives[name])
        out = tmp_path / f"{len(found)}.safetensors"
        command = ["train", "--data", str(tmp_path / "d.npz"), "--sigma", "0.1", "--epochs", "2", "--out", str(out)]
        assert holdfast([*command, "--no-progress", *options]) == 0
        last = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch   2 of 2: "))
        match = re.search(r"accuracy on noisy copies [\d.]+, held out ([\d.]+)$", last)
        found[name, *options] = float(match[1]) if match else None
    # The labels of the test part are wrong ones, so that the accuracy says which images it is of.
    assert found.pop(("both",)) == pytest.approx(0, abs=0.05)
    assert found.pop(("both", "--temperature", "auto")) == pytest.approx(1, abs=0.05)
    assert set(found.values()) == {None}


def test_recipes_that_mean_nothing_are_refused() -> None:
    for wrong, message in (
        ({"optimizer": "magic"}, "adamw, sgd"),
        ({"precision": "int8"}, "float32, bfloat16"),
        ({"shift": -1}, "shift"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            Recipe(0.25, **wrong)


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
def test_compiled_blocks_give_the_same_answers_and_gradients() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x + self.inside(x))

    torch.manual_seed(0)
    net, images = nn.Sequential(Block(), Block(), nn.Flatten()), torch.rand(4, 2, 3, 3)
    compiled = copy.deepcopy(net)
    compile_blocks(compiled)
    for train_mode in (True, False):
        answers = [each.train(train_mode)(images) for each in (net, compiled)]
        assert torch.allclose(answers[0], answers[1], atol=1e-6)
    for each in (net, compiled):
        each(images).square().sum().backward()
    for one, other in zip(net.parameters(), compiled.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.allclose(one.grad, other.grad, rtol=1e-4, atol=1e-5)
