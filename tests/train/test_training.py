"""Training with noise: images move by whole pixels, and a seed repeats itself."""

import copy
import math
import shutil

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.errors import InvalidArgument
from holdfast.train.augmentation import mirrored, shifted
from holdfast.train.capture import compile_blocks
from holdfast.train.loop import train
from holdfast.train.objectives import Consistency
from holdfast.train.recipe import Epoch, Recipe
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.datasets.labelled import LabelledInputs

CPU = torch.device("cpu")


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_few_steps_are_enough_for_the_schedule(steps: int, optimizer: str) -> None:
    count, images = np.arange(4 * steps), np.zeros((4 * steps, 1, 8, 8), np.uint8)
    images.flags.writeable = False  # as they come from a file of IDX
    data = LabelledInputs("made up", images, count % 2, count)
    recipe = Recipe(0.25, epochs=1, batch=4, optimizer=optimizer)
    seen: list[Epoch] = []
    train(Architecture("small-cnn", 1, 8, 2), data, recipe, device=CPU, on_epoch=seen.append)
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
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 96)
    pixels = (rng.random((96, 1, 8, 8)) * 60 + 160 * labels[:, None, None, None]).astype(np.uint8)
    data = LabelledInputs("bright", pixels, labels, np.arange(96))
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
    nets = [
        train(Architecture("small-cnn", 1, 8, 2), data, recipe, device=CPU, on_epoch=epochs.append) for _ in range(2)
    ]
    assert epochs[5].accuracy > 0.9
    assert epochs[:6] == epochs[6:]
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


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
