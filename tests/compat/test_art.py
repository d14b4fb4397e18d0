from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.compat.art import PyTorchRandomizedSmoothing
from holdfast.compat.cohen import Smooth
from networks import images, small_net

THEIR_EXAMPLE = """
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rs_classifier = PyTorchRandomizedSmoothing(
        model=model,
        loss=nn.CrossEntropyLoss(),
        optimizer=optimizer,
        input_shape=(1, 6, 6),
        nb_classes=2,
        channels_first=True,
        clip_values=(0.0, 1.0),
        sample_size=100,
        scale=0.25,
        alpha=0.001,
    )
    rs_classifier.fit(x_train, y_train, nb_epochs=20, batch_size=32)
    preds = rs_classifier.predict(x_test, batch_size=64)
    predictions, radii = rs_classifier.certify(x_test, n=500, batch_size=64)
"""
"""How their notebook and tests use the class."""


class Brighter(nn.Module):
    """Whether the mean is above a number; remembers nothing."""

    def __init__(self, than: float) -> None:
        super().__init__()
        self.than = than

    def forward(self, x: Tensor) -> Tensor:
        above = 50 * (x.flatten(1).mean(1, keepdim=True) - self.than)
        return torch.cat((-above, above), 1)


def made(net: nn.Module | None = None, **changes: Any) -> PyTorchRandomizedSmoothing:
    given: dict[str, Any] = {"loss": nn.CrossEntropyLoss(), "input_shape": (1, 6, 6), "nb_classes": 4, "scale": 0.25}
    return PyTorchRandomizedSmoothing(small_net() if net is None else net, **{**given, **changes})


def brightness(inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Dark and bright images, and which they are, one row of zeros and a one for each."""
    labels = np.arange(inputs) % 2
    x = np.clip(0.2 + 0.5 * labels[:, None, None, None] + 0.1 * images(inputs), 0, 1).astype(np.float32)
    return x, np.eye(2)[labels]


def test_their_example_runs_with_one_changed_import() -> None:
    torch.manual_seed(0)
    x_train, y_train = brightness(128)
    x_test, y_test = brightness(20)
    names: dict[str, Any] = {"torch": torch, "nn": nn, "x_train": x_train, "y_train": y_train, "x_test": x_test}
    exec(
        dedent(THEIR_EXAMPLE).replace("art.estimators.certification.randomized_smoothing", "holdfast.compat.art"), names
    )
    assert names["preds"].shape == (20, 2)
    assert set(names["preds"].sum(1)) <= {0.0, 1.0}
    assert (names["preds"].argmax(1) == y_test.argmax(1)).mean() > 0.9
    assert (names["predictions"] == y_test.argmax(1)).mean() > 0.9
    assert names["radii"].shape == (20,)
    assert names["radii"].mean() > 0.25


def test_answers_are_those_of_cohens_shape_with_the_same_noise() -> None:
    xs, smooth = images(5), Smooth(small_net(), 4, 0.25)
    classes, radii = made(sample_size=50).certify(xs, n=300, seed=7)
    rows = made(sample_size=50).predict(xs, seed=7)
    first = torch.from_numpy(xs[0])
    assert smooth.certify(first, 50, 300, 0.001, 64, seed=7) == (classes[0], radii[0])
    predicted = smooth.predict(first, 50, 0.001, 64, seed=7)
    assert rows[0].tolist() == [float(label == predicted) for label in range(4)]


def test_abstentions_are_rows_of_zeros_unless_they_are_not_wanted() -> None:
    torn = made(Brighter(0.5), nb_classes=2, sample_size=16)
    half = np.full((3, 1, 6, 6), 0.5, dtype=np.float32)
    assert torn.predict(half, seed=0).sum() == 0.0
    assert torn.predict(half, is_abstain=False, seed=0).sum(1).tolist() == [1.0, 1.0, 1.0]
    classes, radii = torn.certify(half, n=100, seed=0)
    assert classes.tolist() == [-1, -1, -1]
    assert radii.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("preprocessing", [(0.25, 0.5), ([0.25], [0.5]), (np.full((1, 6, 6), 0.25), 0.5)])
def test_preprocessing_comes_after_the_noise_so_that_sigma_is_in_the_units_of_the_inputs(preprocessing: Any) -> None:
    """(0.6 - 0.25) / 0.5 = 0.7: what is brighter than 0.7 behind the preprocessing is brighter than 0.6 before it."""
    x = np.full((1, 1, 6, 6), 0.65, dtype=np.float32)
    plain = made(Brighter(0.6), nb_classes=2).certify(x, n=2_000, seed=1)[1]
    inside = made(Brighter(0.7), nb_classes=2, preprocessing=preprocessing).certify(x, n=2_000, seed=1)[1]
    assert 0.2 < plain[0] < 0.35
    assert inside == pytest.approx(plain, abs=0.005)


def test_inputs_beyond_the_range_of_images_need_clip_values_that_say_so() -> None:
    x = 255 * images(2)
    colours = np.concatenate((x, x, x), axis=1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 4))
    with pytest.raises(hf.InvalidInput, match=r"where \[0, 1\] is expected"):
        made(net, input_shape=(3, 6, 6)).predict(colours)
    whole = made(net, input_shape=(3, 6, 6), clip_values=(0, 255), scale=20.0)
    assert whole.predict(np.rint(colours).astype(np.uint8), is_abstain=False).sum() == 2
    with pytest.raises(hf.InvalidInput, match="must lie within clip_values"):
        whole.predict(-colours)


def test_fit_trains_the_model_that_is_certified_on_inputs_in_their_own_units() -> None:
    torch.manual_seed(0)
    x, y = brightness(64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    smoothing = made(net, nb_classes=2, optimizer=torch.optim.SGD(net.parameters(), lr=0.5), preprocessing=(0.5, 0.25))
    before = smoothing.certify(x, n=100, seed=0)[1].mean()
    smoothing.fit(x, y.argmax(1), batch_size=16, nb_epochs=5)
    assert smoothing.certify(x, n=100, seed=0)[1].mean() > before + 0.1
    assert not net.training


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("preprocessing_defences and postprocessing_defences must be None", {"preprocessing_defences": [1]}),
        ("preprocessing_defences and postprocessing_defences must be None", {"postprocessing_defences": [1]}),
        ('device_type must be "gpu" or "cpu"', {"device_type": "tpu"}),
        ("preprocessing must be numbers, one for each channel", {"preprocessing": ([0, 0], [1, 1])}),
        ("preprocessing must be finite, with a positive divisor", {"preprocessing": (0, 0)}),
        (r"preprocessing must be \(subtrahend, divisor\)", {"preprocessing": 3.0}),
        ("sample_size must be", {"sample_size": 0}),
        ("input_shape must be a tuple", {"input_shape": 784}),
        (r"clip_values must be \(least, largest\)", {"clip_values": (0,)}),
        ("sigma must be", {"scale": -1}),
        ("alpha must be", {"alpha": 1}),
        ("has 4 classes, and 3 were given", {"nb_classes": 3}),
        (r"x must be an array of shape \(inputs, 3, 6, 6\)", {"input_shape": (3, 6, 6)}),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(message: str, changes: dict[str, Any]) -> None:
    with pytest.raises(hf.HoldfastError, match=message):
        made(**changes).predict(images(2))


def test_fit_needs_an_optimizer_and_labels_of_its_classes() -> None:
    with pytest.raises(hf.InvalidArgument, match="fit needs an optimizer and a loss"):
        made().fit(images(2), np.zeros(2, dtype=int))
    net = small_net()
    ready = made(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(hf.InvalidArgument, match="y must be 2 class numbers below 4"):
        ready.fit(images(2), np.array([0, 4]))
