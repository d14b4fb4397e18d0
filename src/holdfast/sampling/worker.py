"""What runs on a cluster's worker: a model, loaded once, and a local engine for each job."""

import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from holdfast.errors import ClusterError, HoldfastError
from holdfast.models import Model
from holdfast.models.spot_check import SpotCheck
from holdfast.noise import Noise
from holdfast.sampling.flow import Done
from holdfast.sampling.jobs import Job
from holdfast.sampling.local import LocalEngine


@dataclass(frozen=True)
class Setup:
    """What an engine needs beside the model."""

    noise: Noise
    seed: int
    batch: int


@dataclass(frozen=True)
class Refusal:
    """An error of Holdfast's own, on its way back to who asked: raised there, it is what it would be locally."""

    error: HoldfastError


class Worker:
    """One GPU's or a few cores' worth of sampling. Ray makes an actor of it."""

    def __init__(
        self, packed: bytes, modules: Sequence[str], device: str, threads: int, check: SpotCheck | None
    ) -> None:
        self._packed = packed
        self._modules = modules
        self._device = torch.device(device)
        self._threads = threads
        self._check = check
        self._model: Model | None = None
        self._engines: dict[Setup, LocalEngine] = {}

    def load(self) -> Refusal | None:
        """Unpack the model; what goes wrong is told rather than died of."""
        torch.set_num_threads(self._threads)
        # The model's own modules may be in a folder that only whoever asked knows of; installed ones come first.
        sys.path.extend(folder for folder in self._modules if folder not in sys.path)
        try:
            model: Model = pickle.loads(self._packed)
            self._model = model.moved(self._device)
        except Exception as error:  # the model is foreign code, and its packages may be missing here
            return Refusal(
                ClusterError(
                    f"a worker could not load the model ({type(error).__name__}: {error}); "
                    f"install on every machine of the cluster what the model needs, in the same versions"
                )
            )
        self._packed = b""
        return self._complaint(self._model)

    def _complaint(self, model: Model) -> Refusal | None:
        """The model may be made of classes that are others here."""
        if self._check is None:
            return None
        try:
            scores = model.scores(self._check.rows)
        except HoldfastError as error:
            return Refusal(error)
        fault = self._check.fault(scores)
        if not fault:
            return None
        return Refusal(
            ClusterError(
                f"the model {model.name} answers otherwise on a worker than here ({fault}): its classes were "
                f"changed in this session, or are there in another version; put changes into the files that workers load, and begin anew"
            )
        )

    def run(self, job: Job, setup: Setup) -> Done | Refusal:
        """Do a job; the results go back packed."""
        assert self._model is not None
        began = time.monotonic()
        # Kept, since an engine learns what batch fits its device.
        if setup not in self._engines:
            self._engines = {setup: LocalEngine(self._model, setup.noise, setup.seed, setup.batch)}
        try:
            results = job.run(self._engines[setup])
        except HoldfastError as error:
            return Refusal(error)
        return Done(pickle.dumps(results, protocol=5), time.monotonic() - began)
