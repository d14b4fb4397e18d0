"""A model's workers on one machine: replicas that were compared with it, at the batch size in use."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.errors import ModelError, UnsteadyModel
from holdfast.models import Model
from holdfast.models.check import OTHER_KERNELS, OTHER_ROUNDING, SAME, SAME_ROUNDED, Tolerance, difference
from holdfast.models.model import torch_threads
from holdfast.sampling.batch_size import SMALLEST_BATCH
from holdfast.sampling.batches import Drawing, batches_for, copies_of, keeps_channels_last
from holdfast.sampling.engine import Workload
from holdfast.sampling.span import Counting, NoiseSpan

MOST_WORKERS = 16
_PROBE = SMALLEST_BATCH
_STRANGERS = 64
_SHARE = 256
_OTHER = 2**64
"""An index that no input has."""


@dataclass(frozen=True, eq=False)
class Workers:
    """Who runs batches of one size. Several of them may be one model, if it has no Python state.

    Attributes:
        probe: a few noisy rows that are in every batch.
        answers: what the first of them said of these.
        tolerance: how far later answers may be apart.
        asked: for which model, noise, shape and batch size.
        state: of the model, when they were compared.
    """

    models: Sequence[Model]
    batch: int
    probe: Tensor
    answers: Tensor
    tolerance: Tolerance
    asked: tuple[object, ...]
    state: tuple[object, ...]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MOST_WORKERS, "holdfast-worker"))


def reference_of(model: Model, work: Workload) -> Tensor:
    """What the model itself says of the probe's rows; refused here if it is no classifier."""
    rows = noisy_rows(work, work.x, _PROBE, seed=0)
    try:
        with model.session():
            return model.validate(rows.to(model.device)).cpu()
    except torch.OutOfMemoryError as error:
        raise no_memory(model, _PROBE) from error


def workers_for(model: Model, work: Workload, size: int, draw: Drawing, reference: Tensor) -> Workers:
    """What runs in the model's place, if it answers as the model does; else the next plainer way to run it.

    One forward pass, on the probe's rows among others, in a batch of the size in use; and, where that rounds or was compiled,
    one more among still others.
    """
    x, shown = work.x, min(_PROBE, size // 4)
    rows = noisy_rows(work, x, _PROBE, seed=0)[:shown]
    near, unlike = (noisy_rows(work, each, _STRANGERS // 2, seed=1) for each in (x, torch.zeros_like(x)))
    strangers, one_other = torch.cat((near, unlike)), noisy_rows(work, x, 1, seed=2)
    weights, same = model.weights_version, SAME_ROUNDED if model.rounded else SAME
    while True:
        first, *others = models = _replicas(model)
        far = OTHER_KERNELS
        if model.rounded:
            far = same if first is model else OTHER_ROUNDING
        try:
            with torch_threads(threads_each(model, len(models))):
                found = _ask(model, first, rows, strangers, size, draw)
                fault = difference(found, reference[:shown], far)
                if not fault and (model.rounded or first.compiled):
                    # Among copies of one other row, as unlike the first company as can be. The same kernels round rows
                    # in the same places alike, so that what others do is not lost in a low precision's rounding.
                    fault = difference(_ask(model, first, rows, one_other, size, draw), found, SAME)
        except ModelError as error:
            if not model.fallback(str(error.__cause__ or error)):
                raise
            continue
        if not fault:
            break
        if not model.fallback(f"compiled, its {fault}"):
            raise dependent_rows(model, fault)
    if weights != model.weights_version:
        raise written_to(model, "while it runs")
    for other in {each.device: each for each in others if each.device != first.device}.values():
        far = OTHER_ROUNDING if model.rounded else OTHER_KERNELS
        fault = difference(_ask(model, other, rows, strangers, size, draw), found, far)
        if fault:
            raise ModelError(
                f"the model {model.name} answers otherwise on {other.device} than on {model.device} ({fault}), so that noisy "
                f"copies would not be answered by one classifier; keep what it computes with in parameters and buffers, or "
                f"use one GPU: device={str(model.device)!r}"
            )
    # Few are in every batch: they must not take the room of the copies.
    few = max(1, min(shown, size // _SHARE))
    return Workers(models, size, rows[:few], found[:few], same, asked_of(model, work), state_of(model))


def threads_each(model: Model, workers: int) -> int:
    """A worker's part of torch's threads on a CPU: what was compiled for another number of threads is compiled again."""
    found = torch.get_num_threads()
    return max(1, found // workers) if model.device.type == "cpu" else found


def asked_of(model: Model, work: Workload) -> tuple[object, ...]:
    """What workers are looked for by."""
    return model, work.noise, work.step, work.x.shape, work.batch


def state_of(model: Model) -> tuple[object, ...]:
    """What must not have changed since workers were compared."""
    return model.weights_version, model.compiled, _wanted(model)


def _wanted(model: Model) -> int:
    """As many as torch has threads at the time, or the model has GPUs."""
    return min(torch.get_num_threads(), MOST_WORKERS) if model.device.type == "cpu" else len(model.devices)


def _replicas(model: Model) -> list[Model]:
    """One for each CPU thread or GPU; the model itself, alone, if it cannot be replicated."""
    places = [model.device] * _wanted(model) if model.device.type == "cpu" else model.devices
    found = [each for each in map(model.replicate, places) if each is not None]
    if not all(each.stateless for each in found):
        found = list(dict.fromkeys(found))  # what is one for several workers is run by one
    for each in dict.fromkeys(found):
        each.refresh()
    return found or [model]


def noisy_rows(work: Workload, x: Tensor, rows: int, *, seed: int) -> Tensor:
    """Noisy copies like those to come, but others."""
    span = NoiseSpan(x, seed, _OTHER, Counting.SELECTION, 0, rows)
    return copies_of(span, work.noise, work.step, batches_for(work.noise, work.step, x.device))


def _ask(model: Model, replica: Model, rows: Tensor, strangers: Tensor, size: int, draw: Drawing) -> Tensor:
    """What a replica says of rows among strangers."""
    batch = strangers[torch.arange(size) % len(strangers)]
    # Far from each other, so that they are not in company of their own whatever groups rows are treated in.
    places = size - 1 - torch.arange(len(rows)) * (size // len(rows))
    batch[places] = rows
    batch = batch.to(replica.device)
    if batch.ndim == 4 and keeps_channels_last(draw, replica.device):
        batch = batch.to(memory_format=torch.channels_last)
    with model.session():
        return replica.probabilities(batch).cpu()[places]


def smaller_batch(model: Model, size: int, error: Exception) -> int:
    """Half the size, for a device that ran out of memory."""
    if size <= SMALLEST_BATCH:
        raise no_memory(model, size) from error
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
    return max(SMALLEST_BATCH, size // 2)


def no_memory(model: Model, size: int) -> ModelError:
    """The error for a model that does not fit its device."""
    return ModelError(
        f"the model {model.name} runs out of memory on {model.device} even with {size} "
        f"copies at a time; free memory there, or use another device"
    )


def written_to(model: Model, when: str) -> UnsteadyModel:
    """The error for weights that did not stay as they were."""
    return UnsteadyModel(
        f"the weights or buffers of the model {model.name} were written to {when}, so that noisy copies were not answered by "
        f"one classifier; nothing was certified. Train and certify one after the other, and switch off what the module "
        f"records while it runs"
    )


def dependent_rows(model: Model, fault: str) -> UnsteadyModel:
    """The error for rows that are not answered one by one, or not always alike."""
    return UnsteadyModel(
        f"the model {model.name} cannot be certified: the answer to one row changes with the other rows of the batch, or "
        f"from call to call ({fault}), so noisy copies would not be independent samples; give batch normalisation running "
        f"statistics, take randomness out, and quantise with fixed ranges, not dynamically"
    )
