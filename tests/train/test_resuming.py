"""Training that was interrupted, or killed, resumes: the weights are those of an undisturbed training, bit for bit on a CPU."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.cli.app import INTERRUPTED
from holdfast.cli.app import run as holdfast
from holdfast.errors import CheckpointError
from holdfast.train.loop import train
from holdfast.train.objectives import Consistency
from holdfast.train.recipe import Epoch, Recipe
from holdfast.train.state import StateFile, locked_training
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import load_checkpoint
from holdfast.zoo.datasets.labelled import LabelledInputs

CPU = torch.device("cpu")
SMALL = Architecture("small-cnn", 1, 8, 3)


def images(count: int = 90) -> LabelledInputs:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    pixels = (rng.random((count, 1, 8, 8)) * 120 + 40 * labels[:, None, None, None]).astype(np.uint8)
    return LabelledInputs("grey", pixels, labels, np.arange(count))


def archive(folder: Path, count: int = 90) -> Path:
    data = images(count)
    np.savez(folder / "d.npz", train_images=data.images, train_labels=data.labels)
    return folder / "d.npz"


def command(folder: Path, name: str, *options: str) -> list[str]:
    data = folder / "d.npz" if (folder / "d.npz").exists() else archive(folder)
    fixed = ["--sigma", "0.25", "--batch", "32", "--device", "cpu", "--no-progress"]
    return ["train", "--data", str(data), *fixed, "--out", str(folder / f"{name}.safetensors"), *options]


def state_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors.training"


def same_weights(folder: Path, one: str, other: str) -> bool:
    first, second = (load_checkpoint(folder / f"{name}.safetensors").net.state_dict() for name in (one, other))
    return all(torch.equal(first[name], second[name]) for name in first)


def interrupt(patch: pytest.MonkeyPatch, *, after: int) -> None:
    """Ctrl-C when so many epochs were saved."""
    whole = StateFile.save

    def save(self: StateFile, *args: Any) -> None:
        if len(self.epochs) == after:
            raise KeyboardInterrupt
        whole(self, *args)

    patch.setattr(StateFile, "save", save)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(0.25, 5, 32),
        Recipe(0.25, 5, 32, 0.05, optimizer="sgd", shift=1, objective=Consistency(), precision="bfloat16"),
    ],
)
def test_training_that_is_interrupted_at_random_steps_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path: Path, recipe: Recipe
) -> None:
    steps, rng = 3, random.Random(0)
    undisturbed = StateFile(tmp_path / "undisturbed", {})
    expected = train(SMALL, images(), recipe, device=CPU, file=undisturbed).state_dict()
    unsaved = train(SMALL, images(), recipe, device=CPU).state_dict()
    assert all(torch.equal(expected[name], unsaved[name]) for name in expected)
    interruptions = 0
    while True:
        file = StateFile(tmp_path / "disturbed", {})
        left = rng.randint(1, 2 * steps)  # of these steps, an epoch is finished half of the time

        def on_step(_: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        try:
            found = train(SMALL, images(), recipe, device=CPU, file=file, on_step=on_step).state_dict()
            break
        except KeyboardInterrupt:
            interruptions += 1
        torch.manual_seed(interruptions)
    assert interruptions >= 3
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert file.epochs == undisturbed.epochs
    seconds = [epoch.seconds for epoch in file.epochs]
    assert seconds == sorted(seconds)


@pytest.mark.slow
def test_training_that_is_killed_at_random_moments_ends_with_the_weights_of_an_undisturbed_one(tmp_path: Path) -> None:
    rng, epochs = random.Random(1), ["--epochs", "100"]
    program = [sys.executable, "-m", "holdfast"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    assert holdfast(command(tmp_path, "undisturbed", *epochs)) == 0
    state = state_of(tmp_path, "killed")
    for _ in range(2):
        before = state.stat().st_mtime_ns if state.exists() else 0
        process = subprocess.Popen(
            [*program, *command(tmp_path, "killed", *epochs)], stdout=subprocess.DEVNULL, env=environment
        )
        waited = time.monotonic()
        while not (state.exists() and state.stat().st_mtime_ns > before) and time.monotonic() - waited < 120:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert holdfast(command(tmp_path, "killed", *epochs)) == 0
    assert same_weights(tmp_path, "undisturbed", "killed")
    assert not list(tmp_path.glob("*.training*"))


def test_ctrl_c_says_that_the_same_command_goes_on_and_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for after, said in ((0, "begins anew: no epoch was finished yet"), (2, "goes on after epoch 2 of 4")):
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, after=after)
            assert holdfast(command(tmp_path, "a", "--epochs", "4")) == INTERRUPTED
        assert f"stopped; the same command {said}" in capsys.readouterr().err
        assert not (tmp_path / "a.safetensors").exists()
    assert holdfast(command(tmp_path, "a", "--epochs", "4")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "going on after epoch 2 of 4"
    assert [line[:9] for line in lines[1:3]] == ["epoch   3", "epoch   4"]
    assert " left" in lines[1]
    assert " left" not in lines[2]
    assert not state_of(tmp_path, "a").exists()
    assert holdfast(command(tmp_path, "b", "--epochs", "4")) == 0
    assert same_weights(tmp_path, "a", "b")


def test_what_comes_after_the_last_epoch_resumes_too(tmp_path: Path) -> None:
    archive(tmp_path, 4_000)
    options = ["--epochs", "1", "--batch", "1000", "--temperature", "auto"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.train.temperature.choose_temperature", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            holdfast(command(tmp_path, "a", *options))
    for name in ("a", "b"):
        assert holdfast(command(tmp_path, name, *options)) == 0
    assert same_weights(tmp_path, "a", "b")
    notes = [load_checkpoint(tmp_path / f"{name}.safetensors").notes for name in ("a", "b")]
    assert all(notes[0][each] == notes[1][each] for each in ("temperature", "train_accuracy"))


def test_two_trainings_do_not_write_the_same_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked_training(tmp_path / "a.safetensors"):
        assert holdfast(command(tmp_path, "a", "--epochs", "1")) == CheckpointError.exit_code
        assert "another training is writing" in capsys.readouterr().err
        assert not state_of(tmp_path, "a").exists()
        assert holdfast(command(tmp_path, "b", "--epochs", "1")) == 0
    assert holdfast(command(tmp_path, "a", "--epochs", "1")) == 0


def test_what_a_killed_training_had_half_written_is_removed_and_no_other_file(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    left = [tmp_path / f".a.safetensors{suffix}-{token}.partial" for suffix in ("", ".training")]
    others = [tmp_path / f".b.safetensors-{token}.partial", tmp_path / "a.safetensors.partial"]
    for each in (*left, *others):
        each.touch()
    assert holdfast(command(tmp_path, "a", "--epochs", "1")) == 0
    assert not [each for each in left if each.exists()]
    assert all(each.exists() for each in others)


def test_another_command_is_refused_and_the_message_names_the_difference_and_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, after=1)
        assert holdfast(command(tmp_path, "a", "--epochs", "2")) == INTERRUPTED
    kept = state_of(tmp_path, "a").read_bytes()
    for options, difference in (
        (["--epochs", "3"], "epochs is 2 there and 3 here"),
        (["--seed", "1"], "seed is 0 there and 1 here"),
        (["--temperature", "2"], "temperature is not chosen there and 2 here"),
        (["--objective", "certified"], "objective is Plain(copies=1) there and Certified("),
        (["--arch", "resnet20"], "architecture is small-cnn there and resnet20 here"),
    ):
        capsys.readouterr()
        assert holdfast(command(tmp_path, "a", "--epochs", "2", *options)) == CheckpointError.exit_code
        said = capsys.readouterr().err
        assert difference in said
        assert f"{state_of(tmp_path, 'a')} is of another training" in said
        assert "delete that file to begin anew" in said
    archive(tmp_path, 91)
    assert holdfast(command(tmp_path, "a", "--epochs", "2")) == CheckpointError.exit_code
    assert "SHA-256 of the images is " in capsys.readouterr().err
    assert state_of(tmp_path, "a").read_bytes() == kept
    state_of(tmp_path, "a").unlink()
    assert holdfast(command(tmp_path, "a", "--epochs", "2", "--seed", "1")) == 0


def test_a_damaged_state_and_one_that_holds_code_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "state"
    train(SMALL, images(), Recipe(0.25, 1, 32), device=CPU, file=StateFile(path, {}))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1  # in the middle are weights
    for wrong in (b"", b"no archive", whole[:-100], bytes(flipped)):
        path.write_bytes(wrong)
        with pytest.raises(
            CheckpointError,
            match=r"cannot be read \(BadZipFile\b.*\); restore it from a copy, or delete it to begin anew",
        ):
            StateFile(path, {})
    for foreign in ({"training": SMALL}, [1, 2], {"weights": torch.zeros(2)}):
        torch.save(foreign, path)
        with pytest.raises(CheckpointError, match="should hold the state of an interrupted training"):
            StateFile(path, {})


def test_a_full_disk_leaves_the_state_of_the_epoch_before(tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recipe, path = Recipe(0.25, 2, 32), tmp_path / "state"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CheckpointError, match="No space left on device"):
        train(
            *(SMALL, images(), recipe),
            device=CPU,
            file=StateFile(path, {}),
            on_epoch=lambda _: patch.setattr("os.fsync", full),
        )
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    assert len(StateFile(path, {}).epochs) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_training_on_a_gpu_resumes_with_recorded_steps(tmp_path: Path) -> None:
    gpu, recipe, data = torch.device("cuda"), Recipe(0.25, 8, 32, 0.01), images(320)
    undisturbed = StateFile(tmp_path / "undisturbed", {})
    train(SMALL, data, recipe, device=gpu, file=undisturbed, held_out=images(50))

    def stop(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, data, recipe, device=gpu, file=StateFile(tmp_path / "a", {}), on_epoch=stop)
    resumed = StateFile(tmp_path / "a", {})
    train(SMALL, data, recipe, device=gpu, file=resumed, held_out=images(50))
    assert [epoch.number for epoch in resumed.epochs] == list(range(1, 9))
    for one, other in zip(undisturbed.epochs, resumed.epochs, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=0.1)  # last digits differ, and grow
