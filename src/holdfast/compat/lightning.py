"""A Lightning callback: certified accuracy during training. Without Lightning it is a plain class with the same method."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from torch import nn

from holdfast.certificates import Settings
from holdfast.compat.metric import CertifiedAccuracy
from holdfast.errors import InvalidInput
from holdfast.inputs import InputSource
from holdfast.measures import DEFAULT_MEASURES
from holdfast.noise import Gaussian
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_count


def _lightning_callback() -> type:
    """Lightning's base class, by either name of the package."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return import_module(name).Callback  # type: ignore[no-any-return]
        except ModuleNotFoundError:
            continue
    return object


if TYPE_CHECKING:
    _Callback = object
else:
    _Callback = _lightning_callback()


class CertifiedAccuracyCallback(_Callback):
    """Certifies a few validation inputs after each validation, and logs certified accuracy under the names of ``run.metrics()``.

    Guarantee:
        Each certificate's own: with probability at least ``1 - alpha``, what is counted of one input is true of the network as
        it is at that moment, in evaluation mode. These are certificates with few copies, not estimates: with more copies the
        numbers become larger. An epoch that was chosen by them is the best of many: certify its network anew, on other inputs,
        before you report it.

    Parameters:
        data: pairs of an input and its label, that can be indexed, such as ``Subset(validation, range(100))``.
        sigma: of the noise, in the units of these inputs.
        radii, thresholds: as for :class:`holdfast.compat.metric.CertifiedAccuracy`.
        n, n0, alpha, claims: as for :class:`holdfast.Settings`.
        every: certify in every so many epochs.
        network: finds the module that returns class scores; by default it is the LightningModule itself.
        outputs, inputs, batch: as for :class:`holdfast.SmoothedClassifier`.
    """

    def __init__(
        self,
        data: InputSource,
        sigma: float,
        *,
        radii: ArrayLike,
        thresholds: ArrayLike = (0.5,),
        n: int = 1_000,
        n0: int = 100,
        alpha: float = 1e-3,
        claims: Sequence[str] = ("score",),
        every: int = 1,
        network: Callable[[Any], nn.Module] | None = None,
        outputs: str = "logits",
        inputs: str = "auto",
        batch: int | None = None,
    ) -> None:
        infos = [measure.info for measure in DEFAULT_MEASURES]
        self._settings = Settings(n, n0, alpha, claims).resolved(infos, Gaussian(sigma))
        self._metric = CertifiedAccuracy(radii, thresholds=thresholds)
        self._labels = [_label(data[position]) for position in range(len(data))]
        self._data, self._sigma, self._network = data, sigma, network
        self._every = check_count("every", every)
        self._outputs, self._inputs, self._batch = outputs, inputs, batch

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Certify and log; on one process, and not while Lightning checks that validation runs at all."""
        if trainer.sanity_checking or trainer.current_epoch % self._every or not trainer.is_global_zero:
            return
        net = pl_module if self._network is None else self._network(pl_module)
        pl_module.log_dict(self.certify(net), rank_zero_only=True)

    def certify(self, net: nn.Module) -> dict[str, float]:
        """The numbers for a network as it is now; its mode, its gradients and torch's randomness stay as they are."""
        smoothed = SmoothedClassifier(
            net, self._sigma, outputs=self._outputs, inputs=self._inputs, batch=self._batch, compile=False
        )
        self._metric.reset()
        self._metric.update(smoothed.stream(self._data, None, self._settings, progress=False), self._labels)
        return self._metric.compute()


def _label(item: object) -> int:
    if not isinstance(item, tuple) or len(item) != 2:
        raise InvalidInput(f"data must have pairs (input, label), got {type(item).__name__}; give a labelled dataset")
    return int(item[1])
