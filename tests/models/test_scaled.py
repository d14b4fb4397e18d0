"""One noise scale for each feature, and the other estimators of scikit-learn."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import holdfast as hf

WEIGHTS, BIAS = np.array([1.0, -2.0]), 0.4


class Features:
    """A probit model of features of very different sizes."""

    scale, center = np.array([1_000.0, 0.02]), np.array([50_000.0, 0.5])

    def predict_proba(self, rows: Any) -> Any:
        z = torch.from_numpy((np.asarray(rows, dtype=np.float64) - self.center) / self.scale)
        first = torch.special.ndtr(z @ torch.from_numpy(WEIGHTS) + BIAS).numpy()
        return np.stack((first, 1 - first), 1)


def test_radii_are_in_units_of_the_scales_below_the_closed_form_and_near_it() -> None:
    z, radii = np.array([0.3, 0.1], dtype=np.float32), np.array([0.0, 0.1, 0.25, 0.5])
    scaled = hf.Scaled(Features(), Features.scale, center=Features.center)
    cert = hf.SmoothedClassifier(scaled, 0.5).certify(z, n=20_000, seed=3)
    truth = hf.ProbitModel(WEIGHTS.tolist(), BIAS).worst_case(z, 0.5, radii)
    assert (cert.score.lower(radii) <= truth).all()
    assert (truth - cert.score.lower(radii) < 0.05).all()
    assert "sigma = 0.5, " in str(cert)
    assert "radii in units of each feature's scale" in str(cert)
    assert hf.Certificate.from_dict(cert.to_dict()) == cert
    assert cert.plot().get_xlabel() == "radius of the perturbation (ℓ₂, in units of each feature's scale)"


@pytest.mark.parametrize("units", [3, None, ["mm"]])
def test_units_of_a_certificate_from_a_file_are_words_and_no_formula(units: Any) -> None:
    cert = hf.SmoothedClassifier(Features(), 0.5).certify(np.zeros(2, dtype=np.float32), n=300)
    plain = cert.to_dict()
    with pytest.raises(hf.InvalidArgument, match="units must be words"):
        hf.Certificate.from_dict({**plain, "provenance": {**plain["provenance"], "units": units}})
    dollars = hf.Certificate.from_dict({**plain, "provenance": {**plain["provenance"], "units": "$^$"}})
    dollars.plot().figure.canvas.draw()


def test_a_scaler_a_scale_and_scaled_inputs_are_one_classifier() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    scaler = StandardScaler().fit(X)
    z = scaler.transform(X)[0]
    inside = LogisticRegression().fit(scaler.transform(X), y)
    whole = make_pipeline(scaler, inside)
    meant = hf.SmoothedClassifier(inside, 0.25).certify(z, n=2_000, seed=1)
    for scaled in (hf.Scaled(whole, scaler), hf.Scaled(whole, scaler.scale_, center=scaler.mean_)):
        found = hf.SmoothedClassifier(scaled, 0.25).certify(z, n=2_000, seed=1)
        assert abs(found.evidence.votes - meant.evidence.votes) <= 1
        assert found.score.lower(0.25) == pytest.approx(meant.score.lower(0.25), abs=1e-3)


@pytest.mark.usefixtures("two_threads")
def test_a_scaled_network_is_replicated_and_has_gradients_and_a_fingerprint_of_its_own() -> None:
    torch.manual_seed(0)
    net, scale = nn.Linear(3, 2), np.array([2.0, 4.0, 8.0])
    scaled, rows = hf.Scaled(net, scale), torch.randn(4, 3)
    folded = nn.Linear(3, 2)
    folded.load_state_dict({"weight": net.weight * torch.tensor(scale, dtype=torch.float32), "bias": net.bias})
    replica = scaled.replicate(torch.device("cpu"))
    assert replica is not None
    for model in (scaled, replica):
        with scaled.session():
            assert torch.allclose(model.probabilities(rows), hf.TorchModel(folded).probabilities(rows), atol=1e-6)
    found, meant = (each.gradient(rows, lambda p: p[:, 0]) for each in (scaled, hf.TorchModel(folded)))
    assert found is not None
    assert meant is not None
    assert torch.allclose(found, meant, atol=1e-6)
    prints = {hf.Scaled(net, scale).fingerprint(), scaled.fingerprint()}
    assert len(prints) == 1
    assert hf.Scaled(net, 2 * scale).fingerprint() not in prints
    assert hf.Scaled(net, scale, center=1.0).fingerprint() not in prints


def test_scales_that_are_none_are_refused() -> None:
    for scale in ([1.0, 0.0], [1.0, -1.0], [1.0, np.inf], "wide"):
        with pytest.raises(hf.InvalidArgument, match="scale must be"):
            hf.Scaled(nn.Linear(2, 2), scale)
    with pytest.raises(hf.InvalidInput, match=r"scale has shape \(3,\), and the input \(2,\)"):
        hf.SmoothedClassifier(hf.Scaled(nn.Linear(2, 2), np.ones(3)), 0.5).certify(np.zeros(2), n=100)
    with pytest.raises(hf.InvalidInput, match=r"center has shape \(3,\), and the input \(2,\)"):
        hf.SmoothedClassifier(hf.Scaled(nn.Linear(2, 2), np.ones(2), center=np.ones(3)), 0.5).certify(
            np.zeros(2), n=100
        )
    with pytest.raises(hf.InvalidArgument, match="brings its own center"):
        hf.Scaled(nn.Linear(2, 2), StandardScaler().fit(np.eye(2)), center=np.zeros(2))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda each: type(each).__name__,
)
def test_estimators_are_taken_as_they_are_and_a_stored_one_is_the_same(estimator: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    fitted = estimator.fit(X, y)
    smoothed = hf.SmoothedClassifier(fitted, 0.25)
    known = smoothed.fingerprint
    method = hf.SmoothedClassifier(fitted.predict_proba, 0.25, outputs="probabilities")
    assert smoothed.certify(X[0], n=300, seed=1).evidence == method.certify(X[0], n=300, seed=1).evidence
    assert known is not None
    assert smoothed.fingerprint == known
    assert hf.SmoothedClassifier(pickle.loads(pickle.dumps(fitted)), 0.25).fingerprint == known
    other = type(estimator)(**estimator.get_params(deep=False)).fit(X, 1 - y)
    assert hf.SmoothedClassifier(other, 0.25).fingerprint != known
