"""Any function from a batch to class scores as a model."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import holdfast as hf
from holdfast.errors import InvalidArgument, ModelError
from holdfast.models import CallableModel

X = np.array([0.4, -0.2, 0.3], dtype=np.float32)
CPU = torch.device("cpu")


class Forest:
    """What a fitted estimator of scikit-learn looks like from outside; workers must not share it."""

    def __init__(self, seed: int = 0) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(3, 4))

    def decision_function(self, rows: Any) -> Any:
        self.hidden = rows @ self.weights
        time.sleep(0.001)
        return self.hidden

    def predict_proba(self, rows: Any) -> Any:
        scores = np.exp(self.decision_function(rows))
        return scores / scores.sum(1, keepdims=True)


def plain(rows: Any) -> Any:
    return Forest().predict_proba(rows)


def in_torch(rows: Tensor) -> Tensor:
    return (rows.double() @ torch.from_numpy(Forest().weights)).float()


@pytest.mark.usefixtures("two_threads")
def test_methods_functions_arrays_and_tensors_give_the_same_certificate() -> None:
    def counts(model: Any, outputs: str = "probabilities") -> Any:
        return hf.SmoothedClassifier(model, 0.5, outputs=outputs).certify(X, n=1_500, seed=1).evidence["score"].counts

    meant = counts(plain)

    def flipped(rows: Any) -> Any:
        return np.flip(np.flip(plain(rows), 1).copy(), 1)

    for same in (Forest().predict_proba, flipped, lambda rows: plain(rows).tolist()):
        assert np.array_equal(counts(same), meant)
    torchs = CallableModel(in_torch, outputs="logits", arrays="torch")
    for found in (counts(Forest().decision_function, "logits"), counts(torchs)):
        assert abs(np.cumsum(found - meant)).max() <= 2


@pytest.mark.usefixtures("two_threads")
def test_copies_that_several_threads_draw_are_those_of_one_whatever_a_function_does_meanwhile() -> None:
    def slow(rows: Any) -> Any:
        time.sleep(0.02)
        return plain(rows)

    def counts(function: Any) -> Any:
        smoothed = hf.SmoothedClassifier(function, 0.5, outputs="probabilities")
        return smoothed.certify(X, n=30_000, seed=1).evidence["score"].counts

    found = counts(slow)
    torch.set_num_threads(1)  # who runs the function draws, too
    assert np.array_equal(found, counts(plain))


def test_a_method_of_what_can_be_written_has_a_fingerprint() -> None:
    forest = Forest()
    model, same, other = (CallableModel(each.predict_proba) for each in (forest, Forest(), Forest(1)))
    known = same.fingerprint()
    assert model.name == "Forest.predict_proba"
    assert model.fingerprint() == known
    assert len({known, other.fingerprint(), CallableModel(forest.decision_function).fingerprint(), None}) == 4
    locked = Forest()
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    for function in (plain, lambda rows: rows, locked.predict_proba):
        assert CallableModel(function).fingerprint() is None


@pytest.mark.usefixtures("two_threads")
def test_an_object_that_was_fitted_again_is_certified_as_it_is() -> None:
    forest = Forest()
    smoothed = hf.SmoothedClassifier(forest.predict_proba, 0.5, outputs="probabilities")
    before, known = smoothed.certify(X, n=500, seed=1), smoothed.fingerprint
    forest.weights[:] = Forest(1).weights
    after = smoothed.certify(X, n=500, seed=1)
    assert after.evidence != before.evidence
    fresh = hf.SmoothedClassifier(Forest(1).predict_proba, 0.5, outputs="probabilities").certify(X, n=500, seed=1)
    assert after.evidence == fresh.evidence
    assert smoothed.fingerprint != known


@pytest.mark.parametrize(
    ("function", "outputs", "words"),
    [
        (plain, "logits", r"model plain cannot be certified.*they are probabilities, not logits"),
        (lambda rows: 2 * plain(rows), "probabilities", r"sum to one, got a row with minimum .* and sum 2"),
        (lambda rows: plain(rows)[:, 0], "probabilities", r"expected a tensor of shape \(8, classes\)"),
        (lambda rows: np.ones((len(rows), 2), dtype=int), "logits", "not class indices"),
        (lambda rows: np.full((len(rows), 2), np.nan), "logits", "got NaN or infinity"),
        (
            lambda rows: [["cat", "dog"]] * len(rows),
            "logits",
            r"an \(8, classes\) array of scores, got list \(\[\['cat', 'dog'\]",
        ),
        (
            lambda rows: [[1.0, 2.0], [3.0]] * (len(rows) // 2),
            "logits",
            r"array of scores, got list \(\[\[1.0, 2.0\], \[3.0\]",
        ),
        (
            lambda _: None,
            "logits",
            r"the function <lambda> must return an \(8, classes\) array of scores, got NoneType \(None\)$",
        ),
        (lambda rows: (row for row in rows), "logits", "array of scores, got generator"),
        (lambda rows: np.array([[None, 1.0]] * len(rows)), "logits", r"array of scores, got ndarray \(array\(\[\[None"),
        (in_torch, "logits", r"model in_torch failed.*; a function of torch tensors needs CallableModel"),
        (lambda rows: np.log(plain(rows)) + rows.mean(0)[:1] * [1, 0, 0, 0], "logits", "other rows of the batch"),
    ],
)
def test_what_is_no_classifier_is_refused_in_words(function: Callable[..., Any], outputs: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        hf.SmoothedClassifier(function, 0.5, outputs=outputs).certify(X, n=500, seed=1)


async def awaited(rows: Any) -> Any:
    return plain(rows)


def test_what_is_no_function_and_options_for_modules_are_refused() -> None:
    for make, words in (
        (lambda: CallableModel(3), "expected a function from a batch to class scores, got int"),  # type: ignore[arg-type]
        (lambda: CallableModel(plain, arrays="jax"), 'arrays must be "numpy" or "torch"'),
        (lambda: CallableModel(plain, outputs="scores"), 'outputs must be "logits" or "probabilities"'),
        (lambda: hf.SmoothedClassifier(plain, 0.5, precision="bfloat16"), "for torch modules; leave them out"),
        (
            lambda: hf.SmoothedClassifier(awaited, 0.5),
            r"async function awaited, .* give lambda rows: asyncio.run\(awaited\(rows\)\)",
        ),
        (lambda: hf.SmoothedClassifier("forest", 0.5), "a function of batches, got str"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            make()
