"""A Ray cluster: one actor per GPU, or per few cores, on as many machines as there are.

Spans are idempotent and counts add, so that Ray's own restarts and retries are all that lost workers need.
"""

import io
import logging
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.errors import ClusterError, HoldfastError, ModelError, how_to_install
from holdfast.models import Model
from holdfast.models.check import OTHER_KERNELS, SAME_ROUNDED, difference
from holdfast.sampling.batch_size import default_batch
from holdfast.sampling.engine import Engine, Workload
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.scheduler import Done, Executor, Job, JobSizer
from holdfast.sampling.span import Counts, NoiseSpan
from holdfast.sampling.workers import reference_of
from holdfast.validation import check_count

_STORE_BYTES = 2**28
_RETRIES = 10
_IN_FLIGHT = 2
_JOB_S = 1.0
_GPU_BATCHES, _CPU_BATCHES = 32, 4
_OPEN_PER_WORKER = 64
_PATIENCE_S = 180.0
_SETTLE_S = 5.0
"""What was just given back shows as free a moment later."""


class RayCluster(Engine):
    """Noisy copies are run by the actors of a Ray cluster; needs the extra ``ray``.

    Certificates are those of the local engine for the same seed, bit for bit, on processors of the same kind.

    Parameters:
        workers: how many; by default as many as there is room for.
        cores_per_worker: CPU cores of each. With a model on a GPU, each worker has a GPU as well.
        address: of a running cluster (``"auto"``, ``"host:6379"``), which stays running; by default one is started on
            this machine, and ended with :meth:`close`, with the ``with`` block, or with the program.
    """

    def __init__(self, *, workers: int | None = None, cores_per_worker: int = 1, address: str | None = None) -> None:
        self._workers = None if workers is None else check_count("workers", workers)
        self._cores = check_count("cores_per_worker", cores_per_worker)
        self._address = address
        self._ray: Any = None
        self._mine = False
        self._actors: list[Any] = []
        self._loaded: bytes | None = None
        self._stored: Any = None

    def __repr__(self) -> str:
        return f"RayCluster(workers={self._workers}, cores_per_worker={self._cores}, address={self._address!r})"

    def start(self, model: Model, work: Workload) -> tuple[Executor, JobSizer]:
        """Small requests travel together; large ones are cut into spans. The actors are kept for the next call."""
        self._ray = import_ray()
        reference = reference_of(model, work)
        model.choose_compile(model.worth_compiling(work.copies))
        size = work.batch or default_batch(model.device, work.x.shape, model.flops, model.rows)
        try:
            self._load(model)
            sent = self._ray.put((replace(work, batch=size), reference))
            executor = RayExecutor(self, (self._stored, sent), compiled=model.compiled)
        except BaseException:
            self.close()
            raise
        gpu = model.device.type == "cuda"
        least, workers = (_GPU_BATCHES if gpu else _CPU_BATCHES) * size, len(self._actors)
        return executor, JobSizer(
            least,
            _JOB_S,
            least=least,
            together=gpu or self._cores == 1,
            parallel=_IN_FLIGHT * workers,
            most_open=_OPEN_PER_WORKER * workers,
        )

    def close(self) -> None:
        """End the actors, and Ray as well if it was started here."""
        self._dismiss()
        if self._mine:
            self._ray.shutdown()
        self._mine = False

    def _dismiss(self) -> None:
        actors, self._actors, self._loaded = self._actors, [], None
        for actor in actors:
            self._ray.kill(actor)

    def _load(self, model: Model) -> None:
        """Actors that hold the model as it is now; those that do already are kept."""
        packed = _pack(self._ray, model)
        # Of classes it has the names alone; a model that cannot be compared is sent anew.
        if self._actors and packed == self._loaded and model.fingerprint() is not None:
            return
        self._dismiss()
        self._connect(len(packed))
        gpus = 0 if model.device.type == "cpu" else 1
        workers = self._check_room(gpus)
        actor = self._ray.remote(SamplingActor).options(
            num_cpus=self._cores, num_gpus=gpus, max_restarts=-1, max_task_retries=_RETRIES
        )
        self._loaded, self._stored = packed, self._ray.put(packed)
        given = (tuple(sys.path), "cuda:0" if gpus else "cpu", self._cores)
        self._actors = [actor.remote(*given) for _ in range(workers)]
        ready = [each.ready.remote() for each in self._actors]
        if not self._ray.wait(ready, num_returns=1, timeout=_PATIENCE_S)[0]:
            raise ClusterError(
                f"no worker could be started within {_PATIENCE_S:.0f} seconds, although the cluster had room for "
                f"{workers}; look at 'ray status', and try again"
            )

    def _connect(self, model_bytes: int) -> None:
        if self._ray.is_initialized():
            return
        if self._address is not None:
            _check_reachable(self._address)
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        kept = signal.getsignal(signal.SIGTERM)  # Ray puts one of its own in its place
        try:
            if self._address is None:
                store = _STORE_BYTES + 4 * model_bytes
                self._ray.init(address="local", include_dashboard=False, object_store_memory=store, **quiet)
            else:
                self._ray.init(address=self._address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            where = "start Ray here" if self._address is None else f"reach a Ray cluster at {self._address}"
            raise ClusterError(
                f"could not {where}: {reason}; look at 'ray status', or give no address, to start one here"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, kept)
        self._mine = True

    def _check_room(self, gpus: int) -> int:
        """How many workers; refused here if there is no room for them, rather than waited for."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        room = sum(_room_on(machine, self._cores, gpus) for machine in machines)
        wanted = max(1, room) if self._workers is None else self._workers
        asked = f"{wanted} worker{'s' if wanted > 1 else ''} of {_said(self._cores, gpus)} each were asked for"
        cores, cards = (sum(machine.get(kind, 0) for machine in machines) for kind in ("CPU", "GPU"))
        if wanted > room:
            raise ClusterError(
                f"{asked}, but the cluster has {_said(cores, cards)}, which is room for {room}; "
                f"ask for {max(1, room)}, or for fewer cores each, or use a larger cluster"
            )
        began = time.monotonic()
        while _room_on(free := self._ray.available_resources(), self._cores, gpus) < wanted:
            if time.monotonic() - began > _SETTLE_S:
                raise ClusterError(
                    f"{asked}, but of the cluster's {_said(cores, cards)} only {_said(free.get('CPU', 0), free.get('GPU', 0))} "
                    f"are free; ask for fewer workers, or try again when others are done"
                )
            time.sleep(0.1)
        return wanted


class Counted(NamedTuple):
    """What an actor sends back: the number of a job, its counts, and how long they took."""

    job: int
    counts: list[Counts]
    seconds: float


class SamplingActor:
    """One GPU's or a few cores' worth of sampling; a restarted one loads its model anew."""

    def __init__(self, modules: Sequence[str], device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        # The model's own modules may be in a folder that only the driver knows of; installed ones come first.
        sys.path.extend(folder for folder in modules if folder not in sys.path)
        self._device = torch.device(device)
        self._model: Model | None = None
        self._sampler: LocalSampler | None = None
        self._work: object = None

    def ready(self) -> None:
        """Returns when the actor is there."""

    def count(self, job: int, spans: Sequence[NoiseSpan], stored: Sequence[Any]) -> Counted:
        """A job's counts; the model and the workload are fetched when they are first needed."""
        began = time.monotonic()
        packed, work = stored
        if self._sampler is None or work != self._work:
            # Kept, since a sampler learns what batch fits its device.
            self._sampler, self._work = self._sampler_for(packed, *import_ray().get(work)), work
        return Counted(job, self._sampler.count(spans), time.monotonic() - began)

    def _sampler_for(self, packed: Any, work: Workload, reference: Tensor) -> LocalSampler:
        if self._model is None:
            try:
                sent = io.BytesIO(import_ray().get(packed))
                self._model = torch.load(sent, map_location="cpu", weights_only=False)(self._device)
            except Exception as error:  # the model is foreign code, and its packages may be missing here
                raise ClusterError(
                    f"a worker could not load the model ({type(error).__name__}: {error}); "
                    f"install on every machine of the cluster what the model needs, in the same versions"
                ) from error
        model = self._model
        assert model is not None
        found = reference_of(model, work)
        fault = difference(found, reference, SAME_ROUNDED if model.rounded else OTHER_KERNELS)
        if fault:
            raise ClusterError(
                f"the model {model.name} answers otherwise on a worker than here ({fault}): its classes were changed in this "
                f"session, or are there in another version; put changes into the files that workers load, and begin anew"
            )
        return LocalSampler(model, work)


class RayExecutor(Executor):
    """Hands jobs to actors, two at most to each: so that none waits for the next, and little is lost with one."""

    def __init__(self, cluster: RayCluster, stored: Sequence[Any], *, compiled: bool) -> None:
        self._cluster, self._actors = cluster, cluster._actors
        self._stored = list(stored)  # in a list they travel as references
        self._pool = import_module("ray.util").ActorPool(self._actors * _IN_FLIGHT)
        self._jobs: dict[int, Job] = {}
        self._compiled = compiled

    @property
    def compiled(self) -> bool:
        """As the model was sent to them."""
        return self._compiled

    @property
    def has_room(self) -> bool:
        """Whether any actor has fewer than two."""
        return bool(self._pool.has_free())

    def submit(self, job: Job) -> None:
        """To one that is free."""
        self._jobs[id(job)] = job
        self._pool.submit(lambda actor, each: actor.count.remote(id(each), each.spans, self._stored), job)

    def wait(self) -> list[Done]:
        """The job that comes back first."""
        errors = self._cluster._ray.exceptions
        try:
            found: Counted = self._pool.get_next_unordered()
        except errors.RayTaskError as error:
            if isinstance(error.cause, HoldfastError):
                raise error.cause from None
            raise
        except errors.RayError as error:
            if self._cluster._actors is not self._actors:
                raise ClusterError(
                    "the cluster was asked about another model before this was finished, and holds one at a time; "
                    "take all certificates of one model before the next, or use two clusters"
                ) from error
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            raise ClusterError(
                f"a job lost its worker {_RETRIES + 1} times; the last time: {reason} "
                f"The model may crash its process or need more memory than there is: try it with the local engine"
            ) from error
        return [Done(self._jobs.pop(found.job), found.counts, found.seconds)]


def _room_on(machine: dict[str, float], cores: int, gpus: int) -> int:
    by_cores = int(machine.get("CPU", 0) // cores)
    return min(by_cores, int(machine.get("GPU", 0))) if gpus else by_cores


def _said(cores: float, gpus: float) -> str:
    return f"{cores:g} CPU core{'' if cores == 1 else 's'}" + (
        f" and {gpus:g} GPU{'' if gpus == 1 else 's'}" if gpus else ""
    )


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself would try for minutes."""
    if address == "auto":
        address = _recorded_address() or address
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_SETTLE_S).close()
    except OSError as error:
        raise ClusterError(
            f"nobody answers at {address} ({error}); start a cluster there with 'ray start --head', or give no address, to start one here"
        ) from error


def _recorded_address() -> str | None:
    """Where "auto" leads: to what the environment says, or to the cluster that was last started on this machine."""
    named = os.environ.get("RAY_ADDRESS")
    record = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray" / "ray_current_cluster"
    if named and named != "auto":
        return named
    return record.read_text(encoding="utf-8").strip() if record.is_file() else None


def import_ray() -> Any:
    """Ray, if it is installed."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise ClusterError(
            f"a cluster needs Ray, which could not be imported ({error}); {how_to_install('ray')}, or use the local engine"
        ) from error


def _pack(ray: Any, model: Model) -> bytes:
    """The model as bytes that any machine can load; the same for equal models, as pickle's own of tensors are not."""
    packed = io.BytesIO()
    try:
        torch.save(model.builder(), packed, pickle_module=ray.cloudpickle, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # the model is foreign code
        raise ModelError(
            f"the model {model.name} cannot be sent to workers ({type(error).__name__}: {error}); "
            f"it must be one that pickle can copy: no open files, locks or generators in it"
        ) from error
    return packed.getvalue()
