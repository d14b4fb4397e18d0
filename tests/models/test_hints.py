"""What does not fit is answered with what to change, and the change is right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from torch import nn

import holdfast as hf
from networks import images, small_net

X = images(1)[0]
RNG = np.random.default_rng(0)


def rgb_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def rows_net(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, outputs))


def tokens_net() -> nn.Module:
    return nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(36 * 4, 3))


def one_logit() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 1))


def logistic() -> Any:
    return LogisticRegression().fit(RNG.random((60, 36)), np.arange(60) % 3)


def certify(net: Any, x: Any, outputs: str = "logits") -> hf.Certificate:
    return hf.SmoothedClassifier(net, 0.25, outputs=outputs).certify(x, n=100, n0=10, seed=1)


def flat(net: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), net)


WRONG: dict[str, tuple[Callable[[], Any], NDArray[Any], str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a batch dimension": (
        small_net,
        X[None],
        r"leave the batch dimension out, certify\(x\[0\]\)",
        lambda n: n,
        lambda x: x[0],
    ),
    "a batch dimension of rows": (
        rows_net,
        X.reshape(1, 36),
        r"leave the batch dimension out",
        lambda n: n,
        lambda x: x[0],
    ),
    "a batch dimension, for a network of the zoo": (
        lambda: hf.load("fashion-mnist"),
        np.zeros((1, 1, 28, 28), dtype=np.float32),
        r"leave the batch dimension out",
        lambda n: n,
        lambda x: x[0],
    ),
    "no channel": (small_net, X[0], r"there is no channel: certify\(x\[None\]\)", lambda n: n, lambda x: x[None]),
    "channels last": (
        rgb_net,
        X.repeat(3, 0).transpose(1, 2, 0),
        r"channels are last",
        lambda n: n,
        lambda x: x.transpose(2, 0, 1),
    ),
    "a grey image": (rgb_net, X, r"give x.repeat\(3, axis=0\)", lambda n: n, lambda x: x.repeat(3, axis=0)),
    "an image for rows": (rows_net, X, r"nn.Sequential\(nn.Flatten\(\), net\)", flat, lambda x: x),
    "one logit": (
        one_logit,
        X,
        r"nn.Sequential\(net, nn.ConstantPad1d\(\(1, 0\), 0.0\)\)",
        lambda net: nn.Sequential(net, nn.ConstantPad1d((1, 0), 0.0)),
        lambda x: x,
    ),
    "one logit without a column": (
        lambda: nn.Sequential(one_logit(), nn.Flatten(0)),
        X,
        r"nn.Unflatten\(0, \(-1, 1\)\), nn.ConstantPad1d",
        lambda net: nn.Sequential(net, nn.Unflatten(0, (-1, 1)), nn.ConstantPad1d((1, 0), 0.0)),
        lambda x: x,
    ),
    "an image for an estimator": (
        logistic,
        X,
        r"lambda rows: model.predict_proba\(rows.reshape\(len\(rows\), -1\)\)",
        lambda model: hf.CallableModel(lambda rows: model.predict_proba(rows.reshape(len(rows), -1))),
        lambda x: x,
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_misfit_is_refused_with_a_change_that_makes_it_work(kind: str) -> None:
    make, x, words, other_model, other_x = WRONG[kind]
    torch.manual_seed(0)
    model = make()
    with pytest.raises(hf.ModelError, match=words) as refused:
        certify(model, x)
    assert "conv2d" not in str(refused.value)
    assert certify(other_model(model), other_x(x)).n == 100


def test_what_no_change_of_shape_would_help_is_refused_with_its_reason() -> None:
    for make, x, words in (
        (tokens_net, X.ravel(), "it takes token ids, to which no noise can be added"),
        (small_net, images(1)[0].repeat(2, 1).repeat(2, 2), r"\(8, 1, 12, 12\).* made for inputs of another size"),
        (logistic, X.ravel()[:30], r"\(8, 30\).* made for inputs of another size"),
        (lambda: small_net().double(), X, r"net.float\(\) may be what is missing"),
        (lambda: logistic().predict, X.ravel(), "what predict_proba returns, not class indices"),
    ):
        with pytest.raises(hf.ModelError, match=words):
            certify(make(), x)
    with pytest.raises(hf.ModelError, match=r"one probability p needs two: return \(1 - p, p\)"):
        certify(nn.Sequential(one_logit(), nn.Sigmoid()), X, outputs="probabilities")
    for token_ids in (np.arange(36), torch.arange(36)):
        with pytest.raises(hf.InvalidInput, match="no noise can be added to token ids"):
            certify(tokens_net(), token_ids)


def test_what_is_no_model_is_refused_with_the_line_that_makes_one() -> None:
    unsure = SVC().fit(RNG.random((20, 36)), np.arange(20) % 2)
    for given, words in (
        (nn.ReLU, r"got the class ReLU itself; make one: ReLU\(\)"),
        ("resnet50", r"holdfast.load\('resnet50'\) loads a network"),
        (small_net().state_dict(), r"weights without their network; build it, and net.load_state_dict\(weights\)"),
        ([small_net(), small_net()], r"holdfast.Ensemble\(\[...\]\) averages them"),
        (unsure, r"SVC, which has no predict_proba; .* CalibratedClassifierCV\(model\)"),
        (LinearSVC(), "pass model.decision_function"),
        (3, "int; pass a function that takes a NumPy batch"),
    ):
        with pytest.raises(hf.InvalidArgument, match=words):
            hf.SmoothedClassifier(given, 0.25)
