"""A scikit-learn estimator: any classifier with ``predict_proba``, averaged over noise, and its certificates."""

import numbers
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.bounds import DEFAULT_METHOD, Method
from holdfast.certificates import Certificate
from holdfast.errors import InvalidArgument, how_to_install
from holdfast.inputs import CheckedInputs, GridInput
from holdfast.models import CallableModel
from holdfast.noise import check_seed
from holdfast.sampling import SelectionRequest
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_count, check_sigma

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ImportError(
        f"holdfast.compat.sklearn needs scikit-learn, which could not be imported ({missing}); {how_to_install('sklearn')}"
    ) from missing


class CertifiedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """``CertifiedClassifier(RandomForestClassifier(), sigma=0.5).fit(X, y).certify(X_test)``.

    Radii are l2 distances in the units of the features, with the same noise for all: put a ``StandardScaler`` before it.

    Parameters:
        estimator: a classifier with ``predict_proba``; it is cloned.
        sigma: standard deviation of the Gaussian noise.
        n0: noisy copies that :meth:`predict_proba` averages over, and that :meth:`certify` chooses a class by.
        noisy_copies: how many noisy copies of each row to fit on, since that is what the estimator will be asked about; 0 fits
            on the rows themselves.
        random_state: of fitting, and of the noise. None is secret noise, another at each call, as it should be where somebody
            else chooses the inputs. With a number, answers repeat: those of :meth:`predict` whatever other rows are asked about,
            and a certificate where its row is in the same place.

    Attributes:
        estimator_: the fitted clone.
        classes_: of the labels; ``certificate.predicted`` is a position in it.
    """

    def __init__(
        self,
        estimator: Any,
        sigma: float = 0.25,
        *,
        n0: int = 100,
        noisy_copies: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.sigma = sigma
        self.n0 = n0
        self.noisy_copies = noisy_copies
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a clone of the estimator on noisy copies of the rows."""
        check_sigma(self.sigma)
        check_count("n0", self.n0)
        copies = check_count("noisy_copies", self.noisy_copies, at_least=0)
        if getattr(self.estimator, "predict_proba", None) is None:
            raise InvalidArgument(
                f"the estimator must have predict_proba, which {type(self.estimator).__name__} has not; wrap it in "
                f"sklearn.calibration.CalibratedClassifierCV"
            )
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        if len(np.unique(labels)) < 2:
            raise InvalidArgument("y must have at least 2 classes, got one class; there is nothing to tell apart")
        if copies:
            noise = check_random_state(self.random_state).standard_normal((copies, *rows.shape))
            rows = (rows + self.sigma * noise).reshape(-1, rows.shape[1])
            labels = np.tile(labels, copies)
        self.estimator_ = clone(self.estimator).fit(rows, labels)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest average probability over n0 noisy copies; certified by nothing."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Average class probabilities over n0 noisy copies: estimates, certified by nothing."""
        smoothed, rows = self._smoothed(X)
        inputs = CheckedInputs(rows, smoothed.inputs, smoothed.noise)
        seed = check_seed(self._seed())

        def make(_: int, __: int, at: GridInput) -> SelectionRequest:
            return SelectionRequest(at.x, seed, 0, self.n0, 1)  # one noise for all, so that other rows change nothing

        return np.stack([request.answer.averages for request, _ in smoothed.about(inputs, None, make, None)])

    def certify(
        self,
        X: ArrayLike,
        *,
        n: int = 100_000,
        alpha: float = 1e-3,
        claims: Sequence[str] | None = None,
        sides: str = "lower",
        method: Method = DEFAULT_METHOD,
    ) -> list[Certificate]:
        """A certificate for each row, about ``classes_[certificate.predicted]``; see :meth:`SmoothedClassifier.certify`.

        Guarantee:
            Each certificate's own, with probability at least ``1 - alpha``.
        """
        smoothed, rows = self._smoothed(X)
        asked = {"n": n, "n0": self.n0, "alpha": alpha, "claims": claims, "sides": sides, "method": method}
        return smoothed.certify_many(rows, **asked, seed=self._seed())  # type: ignore[arg-type]

    def _smoothed(self, X: ArrayLike) -> tuple[SmoothedClassifier, NDArray[np.float64]]:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        model = CallableModel(self.estimator_.predict_proba)
        return SmoothedClassifier(model, self.sigma, inputs="any"), rows

    def _seed(self) -> int | None:
        given = self.random_state
        if given is None or isinstance(given, numbers.Integral):
            return None if given is None else int(given)
        return int(check_random_state(given).randint(2**31))
