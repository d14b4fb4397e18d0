"""A metric with torchmetrics' three methods: certified accuracy of certificates as they come. torchmetrics is not needed."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from holdfast.certificates import Certificate
from holdfast.errors import InvalidArgument
from holdfast.runs.metrics import metric_name
from holdfast.validation import check_numbers, check_radii


class CertifiedAccuracy:
    """The share of inputs whose class is right and certified, by radius; ``update``, ``compute``, ``reset``.

    ``metric.update(smoothed.certify_many(images), labels)`` after each batch; ``metric.compute()`` has the numbers of
    ``run.metrics()``, under the same names.

    Guarantee:
        Each certificate's own. The share is of these inputs; that of all inputs differs from it by chance.

    Parameters:
        radii: where to count.
        thresholds: of the measures that are claimed; an average must be strictly above one.
    """

    def __init__(self, radii: ArrayLike, *, thresholds: ArrayLike = (0.5,)) -> None:
        self.radii = tuple(np.atleast_1d(check_radii(radii)).tolist())
        self.thresholds = tuple(np.atleast_1d(check_numbers("thresholds", thresholds)).tolist())
        self.reset()

    def reset(self) -> None:
        """Forget all certificates."""
        self._inputs = self._right = 0
        self._held: dict[str, int] = {}

    def update(self, certificates: Certificate | Iterable[Certificate], labels: int | Iterable[int]) -> None:
        """Count certificates with their labels (numbers, an array or a tensor); one, or as many of each."""
        one = isinstance(certificates, Certificate)
        found = [certificates] if isinstance(certificates, Certificate) else list(certificates)
        known = [int(label) for label in ([labels] if one else labels)]  # type: ignore[union-attr, arg-type]
        if any(label < 0 for label in known):
            raise InvalidArgument(f"labels must be classes, whole numbers from 0, got {min(known)}")
        if len(found) != len(known):
            raise InvalidArgument(
                f"there must be one label for each certificate, got {len(found)} certificates and {len(known)} labels"
            )
        held, right = self._held, 0
        for certificate, label in zip(found, known, strict=True):
            correct = _check(certificate).predicted == label and not certificate.abstained
            certified = dict(self._certified(certificate))
            if held and held.keys() != certified.keys():
                raise InvalidArgument(
                    f"certificates must all claim the same, got one that claims {', '.join(certificate.claims)}; reset() first"
                )
            held = {name: held.get(name, 0) + (correct and holds) for name, holds in certified.items()}
            right += correct
        self._held, self._right, self._inputs = held, self._right + right, self._inputs + len(found)

    def compute(self) -> dict[str, float]:
        """Shares of the inputs by name, and how many inputs there were."""
        if not self._inputs:
            raise InvalidArgument("there are no certificates yet; update(certificates, labels) first")
        shares = {name: held / self._inputs for name, held in self._held.items()}
        return {"certified_inputs": float(self._inputs), "smoothed_accuracy": self._right / self._inputs, **shares}

    def _certified(self, certificate: Certificate) -> Iterator[tuple[str, bool]]:
        """As :meth:`Run.certified_accuracy` counts: a label radius includes itself."""
        if "label" in certificate.claims:
            reach = certificate.label_radius if certificate.label.certified else -1.0
            yield from ((metric_name("label", None, radius), reach >= radius) for radius in self.radii)
        for measure in certificate.measures:
            lower = certificate.curve(measure.name).lower(self.radii)
            for threshold in self.thresholds:
                for radius, bound in zip(self.radii, lower.tolist(), strict=True):
                    yield metric_name(measure.name, threshold, radius), bound > threshold


def _check(certificate: Certificate) -> Certificate:
    if not isinstance(certificate, Certificate):
        raise InvalidArgument(f"expected certificates, as certify_many returns them, got {type(certificate).__name__}")
    if not certificate.method.guaranteed:
        raise InvalidArgument(
            f"{certificate.method.name} gives estimates, which certify nothing; use a method that is guaranteed"
        )
    return certificate
