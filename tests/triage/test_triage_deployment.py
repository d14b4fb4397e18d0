"""Triage at deployment: what an adversary may send is answered, by the network that was calibrated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import holdfast as hf
from holdfast.certificates import Selection
from holdfast.cli.app import run as holdfast
from holdfast.errors import ModelError
from holdfast.measures import DEFAULT_MEASURES
from holdfast.runs.folder import RunFolder
from holdfast.runs.store import Entry, write_part
from holdfast.sampling.accumulate import Accumulator
from holdfast.sampling.span import Counting, Counts, NoiseSpan

SIGMA, RADIUS = 1.0, 0.8


def brightness_net(gain: float = 1.0) -> nn.Module:
    """Two classes, dark and bright, by the sum of all pixels."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    layer = net[1]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(gain * torch.tensor([[-1.0] * 36, [1.0] * 36]))
        layer.bias.copy_(gain * torch.tensor([18.0, -18.0]))
    return net


@pytest.fixture(scope="module")
def calibrated() -> tuple[hf.SmoothedClassifier, hf.Triage]:
    smoothed = hf.SmoothedClassifier(brightness_net(), SIGMA)
    labels = np.arange(100) % 2
    xs = np.repeat(labels.astype(np.float32), 36).reshape(100, 1, 6, 6)
    certificates = smoothed.certify_many(xs, n=1_000, n0=50, seed=1, progress=False)
    found = hf.choose_threshold(
        zip(certificates, labels, strict=True),
        radius=RADIUS,
        epsilon=0.1,
        thresholds=[0.6],
        fingerprint=smoothed.fingerprint,
    )
    assert found.chosen is not None
    assert found.chosen.surely_right == 100
    return smoothed, found


def test_an_input_pushed_out_of_the_range_of_images_is_answered(
    calibrated: tuple[hf.SmoothedClassifier, hf.Triage],
) -> None:
    smoothed, triage = calibrated
    moved = np.ones((1, 6, 6), dtype=np.float32)
    moved[0, 0, 0] += RADIUS  # within the radius of an image that is surely accepted
    with pytest.raises(hf.InvalidInput, match="looks like an image"):
        smoothed.certify(moved)
    verdict = smoothed.triage(moved, triage, seed=2)
    assert (verdict.accepted, verdict.predicted) == (True, 1)
    inside = np.clip(moved, -0.5, 1.5)
    assert smoothed.triage(inside, triage, seed=2) == verdict
    assert smoothed.triage(moved.astype(np.float64), triage, seed=2) == verdict


def test_what_is_no_perturbation_of_an_image_is_still_refused(
    calibrated: tuple[hf.SmoothedClassifier, hf.Triage],
) -> None:
    smoothed, triage = calibrated
    for bad, why in (
        (np.full((1, 6, 6), 255.0), "looks like an image"),
        (np.full((1, 6, 6), 1.5 + 0.17 * RADIUS), "looks like an image"),
        (np.full((1, 6, 6), np.nan), "finite"),
        (np.full((1, 6, 6), np.inf), "finite"),
        (np.ones((1, 6, 6), dtype=np.uint8), "floating point"),
    ):
        with pytest.raises(hf.InvalidInput, match=why):
            smoothed.triage(bad, triage)  # type: ignore[arg-type]


def test_another_network_is_refused_also_when_it_becomes_another_later(
    calibrated: tuple[hf.SmoothedClassifier, hf.Triage],
) -> None:
    _, triage = calibrated
    x = np.ones((1, 6, 6), dtype=np.float32)
    net = brightness_net()
    smoothed = hf.SmoothedClassifier(net, SIGMA)
    assert smoothed.triage(x, triage).accepted  # equal weights: the same network
    with torch.no_grad():
        next(net.parameters()).mul_(1.01)
    with pytest.raises(hf.InvalidInput, match="another network"):
        smoothed.triage(x, triage)
    with pytest.raises(hf.InvalidInput, match="another network"):
        hf.SmoothedClassifier(brightness_net(0.5), SIGMA).triage(x, triage)


def test_an_unknown_network_is_warned_of(calibrated: tuple[hf.SmoothedClassifier, hf.Triage]) -> None:
    smoothed, triage = calibrated
    x, unknown = np.ones((1, 6, 6), dtype=np.float32), replace(triage, fingerprint=None)
    with pytest.warns(RuntimeWarning, match="made without one"):
        assert smoothed.triage(x, unknown).accepted
    net = brightness_net()
    net.register_forward_hook(lambda *_: None)
    unnamed = hf.SmoothedClassifier(net, SIGMA)
    with pytest.warns(RuntimeWarning, match="this network has none"):
        assert unnamed.triage(x, triage).accepted


def test_weights_that_were_written_to_unnoticed_are_another_network(
    calibrated: tuple[hf.SmoothedClassifier, hf.Triage],
) -> None:
    _, triage = calibrated
    net, x = brightness_net(), np.ones((1, 6, 6), dtype=np.float32)
    smoothed = hf.SmoothedClassifier(net, SIGMA)
    assert smoothed.triage(x, triage).accepted
    for parameter in net.parameters():
        parameter.data.neg_()  # torch does not count this
    with pytest.raises(hf.InvalidInput, match="another network"):
        smoothed.triage(x, triage)


def counted(rows: torch.Tensor, counting: Counting) -> Counts:
    some = NoiseSpan(torch.zeros(1), 0, 0, counting, 0, len(rows))
    accumulator = Accumulator([some], DEFAULT_MEASURES, torch.device("cpu"))
    accumulator.add(rows, torch.zeros(len(rows), dtype=torch.int64), len(rows))
    return accumulator.results("net", hf.Gaussian(1.0))[0]


@pytest.mark.parametrize("counting", [Counting.SELECTION, Counting.EVIDENCE])
def test_many_small_negative_probabilities_do_not_hide_that_two_classes_exceed_one(counting: Counting) -> None:
    row = torch.full((1, 100), -0.0009)
    row[0, 0], row[0, 1] = 0.5441, 0.5441
    assert float(row.sum()) == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(ModelError, match="not probabilities"):
        counted(row, counting)
    for bad in (float("nan"), float("-inf")):
        with pytest.raises(ModelError, match="not probabilities"):
            counted(torch.tensor([[1.0, bad]]), counting)


def test_a_class_is_chosen_by_sums_without_negative_probabilities() -> None:
    tiny = 1e-6
    selection = counted(torch.tensor([[0.5 + tiny, 0.5, -tiny], [0.5 - tiny, 0.5, tiny]]), Counting.SELECTION)
    assert isinstance(selection, Selection)
    assert (selection.sums >= 0).all()
    assert selection.sums[2] > 0


@pytest.mark.slow
def test_calibrating_on_what_was_trained_on_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    pictures = (rng.integers(60, 100, size=(40, 8, 8)) + 100 * labels[:, None, None]).astype(np.uint8)
    same, other = tmp_path / "one.npz", tmp_path / "other.npz"
    np.savez(same, images=pictures, labels=labels)  # without parts: every --split reads it all
    np.savez(other, images=pictures[::-1], labels=labels[::-1])
    net = tmp_path / "net.safetensors"
    assert holdfast(["train", "--data", str(same), "--sigma", "0.25", "--epochs", "1", "--out", str(net)]) == 0
    certify = ["certify", "--model", str(net), "--sigma", "0.25", "--n", "100", "--split", "val"]
    for name, asked, refused in (
        ("all", ["--data", str(same)], True),
        ("every-second", ["--data", str(same), "--skip", "2"], True),
        ("others", ["--data", str(other)], False),
    ):
        out = tmp_path / name
        assert holdfast([*certify, *asked, "--out", str(out)]) == 0
        capsys.readouterr()
        assert holdfast(["triage", str(out), "--radius", "0.1"]) != 0
        assert ("trained on" in capsys.readouterr().err) == refused


def test_one_of_several_looks_is_no_basis_for_a_decision(
    calibrated: tuple[hf.SmoothedClassifier, hf.Triage], tmp_path: Path
) -> None:
    smoothed, triage = calibrated
    certificate = smoothed.certify(np.ones((1, 6, 6), dtype=np.float32), n=1_000, n0=50)
    look = replace(certificate, share=0.5)
    assert triage.decide(certificate).accepted
    with pytest.raises(hf.InvalidInput, match="several looks"):
        triage.decide(look)
    with pytest.raises(hf.InvalidInput, match="several looks"):
        hf.choose_threshold([(look, 1)] * 100, radius=RADIUS)
    with pytest.raises(hf.InvalidArgument, match="planned looks"):
        write_part(RunFolder(tmp_path), 0, [Entry(0, 1, look)])
