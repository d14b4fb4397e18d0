"""A metric with torchmetrics' three methods: certified accuracy of certificates as they come. torchmetrics is not needed."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.certificates import Certificate
from holdfast.errors import InvalidArgument
from holdfast.runs.metrics import metric_name
from holdfast.validation import check_number, check_radius


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

    def __init__(self, radii: Sequence[float], *, thresholds: Sequence[float] = (0.5,)) -> None:
        self.radii = tuple(check_radius(radius) for radius in radii)
        self.thresholds = tuple(check_number("a threshold", threshold) for threshold in thresholds)
        self.reset()

    def reset(self) -> None:
        """Forget all certificates."""
        self._inputs = self._right = 0
        self._held: dict[str, int] = {}

    def update(self, certificates: Certificate | Iterable[Certificate], labels: int | Iterable[int]) -> None:
        """Count certificates with their labels (numbers, an array or a tensor); one, or as many of each."""
        alone = isinstance(certificates, Certificate)
        found = [certificates] if isinstance(certificates, Certificate) else list(certificates)
        known = [int(label) for label in ([labels] if alone else labels)]  # type: ignore[union-attr, arg-type]
        if len(found) != len(known):
            raise InvalidArgument(
                f"there must be one label for each certificate, got {len(found)} certificates and {len(known)} labels"
            )
        for certificate, label in zip(found, known, strict=True):
            if not certificate.method.guaranteed:
                raise InvalidArgument(
                    f"{certificate.method.name} gives estimates, which certify nothing; use a method that is guaranteed"
                )
            right = certificate.predicted == label and not certificate.abstained
            held = {name: right and certified for name, certified in self._certified(certificate)}
            if self._held and held.keys() != self._held.keys():
                raise InvalidArgument(
                    f"certificates must all claim the same, got one that claims {', '.join(certificate.claims)}; reset() first"
                )
            self._held = {name: self._held.get(name, 0) + certified for name, certified in held.items()}
            self._inputs += 1
            self._right += right

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
