"""A model, its noise, and who runs its noisy copies: what every question about a smoothed classifier is made of."""

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from holdfast.certificates import Provenance
from holdfast.inputs import CheckedInputs, GridInput, Input, check_indices
from holdfast.measures import Measure
from holdfast.models import Model
from holdfast.models.fast.precision import check_native
from holdfast.noise import Noise, check_seed
from holdfast.progress import OnDone, ignore
from holdfast.sampling import Engine
from holdfast.sampling.batch_size import check_batch
from holdfast.sampling.batches import noise_name
from holdfast.sampling.requests import AnyRequest
from holdfast.version import installed_version


class NoisyModel(ABC):
    """Runs requests about inputs.

    Attributes:
        step: of the grid that inputs are rounded to; None for what suits each.
        inputs: ``"auto"``, ``"images"`` or ``"any"``.
        batch: rows of a forward pass; None for what suits the model.
    """

    model: Model
    noise: Noise
    step: float | None
    measures: tuple[Measure, ...]
    inputs: str
    engine: Engine
    batch: int | None

    @property
    def fingerprint(self) -> str | None:
        """Which network this is, by its structure and weights; None if that cannot be told. Classes count by their names."""
        return self.model.fingerprint()

    def provenance(
        self,
        step: float,
        *,
        seed: int = 0,
        index: int = 0,
        seconds: float = 0.0,
        compiled: bool = False,
        shift: float = 0.0,
    ) -> Provenance:
        """The record of how noisy copies on a grid were made."""
        check_native(self.model.precision, self.model.device)
        model, noise = self.model, noise_name(self.noise, step, self.model.device)
        made = (noise, model.name, str(model.device), model.precision, installed_version())
        return Provenance(
            seed, index, *made, seconds=seconds, compiled=compiled, step=step, shift=shift, units=model.units
        )

    def run_requests(
        self,
        requests: Iterable[AnyRequest],
        step: float,
        batch: int | None,
        on_copies: OnDone = ignore,
        *,
        in_order: bool = True,
        inputs: int | None = None,
        say: Callable[[str], None] = ignore,
    ) -> Iterator[AnyRequest]:
        """Requests as they are finished, on a grid of this step: what every other method is made of."""
        return self.engine.run(
            self.model,
            self.noise,
            requests,
            step=step,
            measures=self.measures,
            batch=check_batch(batch) or self.batch,
            on_copies=on_copies,
            in_order=in_order,
            inputs=inputs,
            say=say,
        )

    def about(
        self,
        inputs: CheckedInputs,
        indices: Sequence[int] | None,
        make: Callable[[int, int, GridInput], AnyRequest],
        batch: int | None,
        on_copies: OnDone = ignore,
        *,
        in_order: bool = True,
        say: Callable[[str], None] = ignore,
    ) -> Iterator[tuple[AnyRequest, float]]:
        """Requests about inputs as they are finished, with the step of their grid; those on one grid share batches."""
        keyed = enumerate(zip(check_indices(indices, len(inputs)), inputs, strict=True))
        left = len(inputs) if len(inputs) > 1 else None  # after a single one, another may come
        for step, some in groupby(keyed, lambda each: each[1][1].step):
            requests = (make(k, index, at) for k, (index, at) in some)
            found = self.run_requests(requests, step, batch, on_copies, in_order=in_order, inputs=left, say=say)
            for request in found:
                left = left and left - 1
                yield request, step

    def at(self, x: Input, seed: int | None, index: int) -> tuple[GridInput, int, int]:
        """One input where it is sampled, and what keys its noise."""
        (at,) = CheckedInputs([x], self.inputs, self.noise, self.step)
        return at, check_seed(seed), check_indices([index], 1)[0]
