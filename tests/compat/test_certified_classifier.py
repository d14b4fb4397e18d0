from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import holdfast as hf
from holdfast.compat.sklearn import CertifiedClassifier


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        CertifiedClassifier(LogisticRegression()),
        CertifiedClassifier(DecisionTreeClassifier(random_state=0), 0.1, noisy_copies=0),
    ]
)
def test_it_is_an_estimator_as_scikit_learn_wants_them(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def cancer() -> tuple[NDArray[np.float64], ...]:
    x, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])
    train, test, known, labels = train_test_split(x, names[y], random_state=0)
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)[:40], known, labels[:40]


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(max_iter=500), RandomForestClassifier(10, min_samples_leaf=2, random_state=0)]
)
def test_a_classifier_of_scikit_learns_is_certified_at_its_own_classes(estimator: Any, cancer: Any) -> None:
    train, test, known, labels = cancer
    model = CertifiedClassifier(estimator, 0.5, random_state=0).fit(train, known)
    assert model.score(test, labels) > 0.9
    certificates = model.certify(test, n=1_000, claims=("score",))
    right = model.classes_[[certificate.predicted for certificate in certificates]] == labels
    within = np.array([certificate.score.lower(0.25) > 0.5 for certificate in certificates])
    assert (right & within).mean() > 0.8
    assert certificates[0].sigma == 0.5


def test_fitting_on_noisy_copies_is_what_makes_a_forest_certifiable(cancer: Any) -> None:
    train, test, known, _ = cancer
    forest = RandomForestClassifier(10, min_samples_leaf=2, random_state=0)
    average = [
        np.mean([each.score.lower(0.5) for each in model.certify(test[:20], n=500, claims=("score",))])
        for model in (
            CertifiedClassifier(forest, 0.5, noisy_copies=copies, random_state=0).fit(train, known)
            for copies in (0, 10)
        )
    ]
    assert average[1] > average[0] + 0.05


def test_averages_are_certified_bounds_and_more(cancer: Any) -> None:
    train, test, known, _ = cancer
    model = CertifiedClassifier(LogisticRegression(max_iter=500), 0.5, n0=2_000, random_state=1).fit(train, known)
    shares = model.predict_proba(test[:10])
    assert shares.sum(axis=1) == pytest.approx(np.ones(10), abs=1e-5)
    for share, certificate in zip(shares, model.certify(test[:10], n=2_000), strict=True):
        assert share[certificate.predicted] > certificate.score.lower(0.0) - 0.02
        assert certificate.score.lower(0.0) > certificate.score.lower(0.5)


def test_noise_is_secret_unless_a_random_state_is_given(cancer: Any) -> None:
    train, test, known, _ = cancer
    model = CertifiedClassifier(LogisticRegression(max_iter=500), 0.5).fit(train, known)
    assert not np.array_equal(model.predict_proba(test), model.predict_proba(test))
    assert len({model.certify(test[:1], n=100)[0].seed for _ in range(3)}) == 3
    model.set_params(random_state=3)
    assert np.array_equal(model.predict_proba(test)[5:7], model.predict_proba(test[5:7]))
    assert model.certify(test[:1], n=100)[0].seed == 3
    model.set_params(random_state=np.random.RandomState(0))
    assert model.certify(test[:1], n=100)[0].seed < 2**31


def test_it_works_in_pipelines_searches_and_clones() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    model = CertifiedClassifier(LogisticRegression(max_iter=500), 0.5, n0=50, noisy_copies=2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipeline, x[:200], y[:200], cv=3).mean() > 0.85
    search = GridSearchCV(pipeline, {"certifiedclassifier__sigma": [0.25, 2.0]}, cv=2).fit(x[:200], y[:200])
    assert search.best_params_["certifiedclassifier__sigma"] in (0.25, 2.0)
    assert clone(model).get_params()["sigma"] == 0.5


@pytest.mark.parametrize(
    ("message", "model"),
    [
        ("must have predict_proba, which LinearSVC has not", CertifiedClassifier(LinearSVC())),
        ("sigma must be a positive number", CertifiedClassifier(LogisticRegression(), -1.0)),
        ("n0 must be a whole number", CertifiedClassifier(LogisticRegression(), n0=0)),
        ("noisy_copies must be a whole number", CertifiedClassifier(LogisticRegression(), noisy_copies=-1)),
    ],
)
def test_what_cannot_be_certified_is_refused_in_words(message: str, model: Any) -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    with pytest.raises(hf.InvalidArgument, match=message):
        model.fit(x, y)


def test_a_single_class_is_refused() -> None:
    with pytest.raises(hf.InvalidArgument, match="at least 2 classes"):
        CertifiedClassifier(LogisticRegression()).fit(np.zeros((4, 2)), np.zeros(4))
