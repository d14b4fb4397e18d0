"""A model's workers on this machine: replicas that were compared with it, at the batch size in use."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.models import Model
from holdfast.models.check import OTHER_KERNELS, OTHER_ROUNDING, SAME, SAME_ROUNDED, Tolerance, difference
from holdfast.models.model import running
from holdfast.noise import Noise
from holdfast.sampling.batch_size import SMALLEST_BATCH, default_batch, reused_batch
from holdfast.sampling.batches import CounterBatches, NoisyBatches

_MOST_WORKERS = 16
_PROBE = SMALLEST_BATCH
_STRANGERS = 64
_SHARE = 16


@dataclass(frozen=True, eq=False)
class Workers:
    """Who runs batches of one size. Several of them may be one model, if it has no Python state.

    Attributes:
        probe: a few noisy rows that each is asked first and last, among others.
        tolerance: how far its answers may be apart.
        weights: the version they were compared at.
        answers: to the probe, if they were compared just now.
    """

    models: Sequence[Model]
    batch: int
    probe: Tensor
    tolerance: Tolerance
    weights: object
    answers: Tensor | None

    @property
    def threads(self) -> int:
        """Of torch's own, for each: divided alike whether or not there is work for all, since arithmetic may depend on it."""
        on_cpu = self.models[0].device.type == "cpu"
        return max(1, torch.get_num_threads() // len(self.models)) if on_cpu else torch.get_num_threads()


class WorkerCache:
    """The workers of one model, for each shape of input and batch size; compared again when weights have changed.

    A replica is run by one thread at a time: whoever uses the workers is in their models' sessions.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._replicas: dict[tuple[bool, int], list[Model]] = {}
        self._compared: dict[tuple[torch.Size, bool, int, int], Workers] = {}

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """Threads for the workers; started as they are needed, and kept."""
        return ThreadPoolExecutor(_MOST_WORKERS, "holdfast-worker")

    def close(self) -> None:
        """End the threads, and wait for them; others are started when they are needed again."""
        with running:
            pool: ThreadPoolExecutor | None = vars(self).pop("pool", None)
            if pool is not None:
                pool.shutdown()

    def get(self, noise: Noise, x: Tensor, *, copies: int, batch: int | None, kind: type[NoisyBatches]) -> Workers:
        """Workers for inputs like ``x``, of so many copies each; the model is refused here if it is no classifier.

        At most three forward passes: the model itself on a few rows; what runs in its place on these rows among others, in
        a batch of the size in use; and, where that rounds or was compiled, once more among still others.
        """
        with running:
            model, wanted = self.model, _wanted(self.model)
            sizes = [(size, compiled) for shape, compiled, size, _ in self._compared if shape == x.shape]
            reference = None if sizes else self._reference(noise, x)
            model.choose_compile(copies)
            best = default_batch(model.device, x.shape, model.flops, copies + 2 * _PROBE)
            known = [size for size, compiled in sizes if compiled]
            size = batch or (reused_batch(best, known[-1]) if model.compiled and known else best)
            while True:
                found = self._compared.get((x.shape, model.compiled, size, wanted))
                if found is not None and found.weights == model.weights_version:
                    for each in dict.fromkeys(found.models):
                        each.refresh()
                    return replace(found, answers=None)
                reference = self._reference(noise, x) if reference is None else reference
                try:
                    found = self._compare(noise, x, size, kind, reference)
                except torch.OutOfMemoryError as error:
                    size = smaller_batch(model, size, error)
                else:
                    self._compared[x.shape, model.compiled, size, wanted] = found
                    return found

    def _reference(self, noise: Noise, x: Tensor) -> Tensor:
        """What the model itself says of the probe's rows."""
        rows = noisy_rows(noise, x, _PROBE, seed=0)
        try:
            with self.model.session():
                return self.model.validate(rows.to(self.model.device)).cpu()
        except torch.OutOfMemoryError as error:
            raise _no_room(self.model, _PROBE) from error

    def _compare(self, noise: Noise, x: Tensor, size: int, kind: type[NoisyBatches], reference: Tensor) -> Workers:
        """What runs in the model's place, if it answers as the model does; else the next plainer way to run it."""
        model = self.model
        shown = min(_PROBE, size // 4)
        rows = noisy_rows(noise, x, _PROBE, seed=0)[:shown]
        near, unlike = (noisy_rows(noise, each, _STRANGERS // 2, seed=1) for each in (x, torch.zeros_like(x)))
        strangers, one_other = torch.cat((near, unlike)), noisy_rows(noise, x, 1, seed=2)
        weights = model.weights_version
        while True:
            models = self._models()
            first = models[0]
            plain = not model.rounded and not first.compiled
            same = SAME_ROUNDED if model.rounded else SAME
            far = OTHER_KERNELS if not model.rounded else same if first is model else OTHER_ROUNDING
            try:
                found = _ask(first, rows, strangers, size, kind)
                fault = difference(found, reference[:shown], far)
                if not fault and not plain:
                    # Among copies of one other row, as unlike the first company as can be. The same kernels round rows
                    # in the same places alike, so that what others do is not lost in a low precision's rounding.
                    fault = difference(_ask(first, rows, one_other, size, kind), found, SAME)
            except ModelError as error:
                fault, plainer = str(error), first.fallback(str(error))
                if plainer is None:
                    raise
            else:
                plainer = first.fallback(f"compiled, its {fault}" if first.compiled else fault) if fault else None
            if not fault:
                break
            if plainer is None:
                raise dependent_rows(model, fault)
            self._replicas = {}
        if weights != model.weights_version:
            raise written_to(model, "while it runs")
        for other in {each.device: each for each in models if each.device != first.device}.values():
            fault = difference(
                _ask(other, rows, strangers, size, kind), found, OTHER_ROUNDING if model.rounded else far
            )
            if fault:
                raise ModelError(
                    f"the model {model.name} answers otherwise on {other.device} than on {model.device} ({fault}), so that noisy "
                    f"copies would not be answered by one classifier; keep what it computes with in parameters and buffers, or "
                    f"use one GPU: device={str(model.device)!r}"
                )
        # Few are asked first and last: they must not take the room of the copies.
        few = max(1, min(shown, size // _SHARE))
        return Workers(models, size, rows[:few], same, weights, found[:few])

    def _models(self) -> list[Model]:
        """Replicas: one for each CPU thread or GPU; the model itself, alone, if it cannot be replicated."""
        model, known = self.model, self._replicas
        wanted = _wanted(model)
        key = (model.compiled, wanted)
        if key not in known:
            first = model.replicate(model.device)
            if first is None:
                known[key] = [model]
            elif first.compiled and len(model.devices) == 1:
                known[key] = [first] * (wanted if first.stateless else 1)
            else:
                places = [model.device] * wanted if model.device.type == "cpu" else list(model.devices)
                others = [model.replicate(device) for device in places[1:]]
                known[key] = [first, *(each for each in others if each is not None)]
        for each in dict.fromkeys(known[key]):
            each.refresh()
        return known[key]


def _wanted(model: Model) -> int:
    """How many workers: as many as torch has threads at the time, or a model has GPUs."""
    return min(torch.get_num_threads(), _MOST_WORKERS) if model.device.type == "cpu" else len(model.devices)


def noisy_rows(noise: Noise, x: Tensor, rows: int, *, seed: int) -> Tensor:
    """Noisy copies like those to come, but others."""
    drawn = noise.standard(np.random.default_rng(seed), (rows, *x.shape))
    return x + noise.scale * torch.from_numpy(drawn)


def _ask(model: Model, rows: Tensor, strangers: Tensor, size: int, kind: type[NoisyBatches]) -> Tensor:
    """What a model says of rows among strangers."""
    batch = strangers[torch.arange(size) % len(strangers)]
    # Far from each other, so that they are not in company of their own whatever groups rows are treated in.
    places = size - 1 - torch.arange(len(rows)) * (size // len(rows))
    batch[places] = rows
    batch = batch.to(model.device)
    if kind is CounterBatches and batch.ndim == 4:
        batch = batch.to(memory_format=torch.channels_last)
    with model.session():
        return model.probabilities(batch).cpu()[places]


def smaller_batch(model: Model, size: int, error: Exception) -> int:
    """Half the size, for a device that ran out of memory."""
    if size <= SMALLEST_BATCH:
        raise _no_room(model, size) from error
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
    return max(SMALLEST_BATCH, size // 2)


def _no_room(model: Model, size: int) -> ModelError:
    return ModelError(
        f"the model {model.name} runs out of memory on {model.device} even with {size} "
        f"copies at a time; free memory there, or use another device"
    )


def written_to(model: Model, when: str) -> ModelError:
    """The error for weights that did not stay as they were."""
    return ModelError(
        f"the weights or buffers of the model {model.name} were written to {when}, so that noisy copies were not answered by "
        f"one classifier; nothing was certified. Train and certify one after the other, and switch off what the module "
        f"records while it runs"
    )


def dependent_rows(model: Model, fault: str) -> ModelError:
    """The error for rows that are not answered one by one, or not always alike."""
    return ModelError(
        f"the model {model.name} cannot be certified: the answer to one row changes with the other rows of the batch, or "
        f"from call to call ({fault}), so noisy copies would not be independent samples; give batch normalisation running "
        f"statistics, take randomness out, and quantise with fixed ranges, not dynamically"
    )
