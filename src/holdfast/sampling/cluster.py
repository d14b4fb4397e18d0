"""A Ray cluster: one worker per GPU, or per few cores, on as many machines as there are."""

import logging
import os
import pickle
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.errors import ClusterError, ModelError
from holdfast.extras import how_to_install
from holdfast.models import Model
from holdfast.noise import Noise
from holdfast.progress import OnDone
from holdfast.sampling.compute import Compute
from holdfast.sampling.crew import Crew
from holdfast.sampling.engine import Answer, Engine, Question, Task
from holdfast.sampling.flow import Answers, Pace, Spread
from holdfast.sampling.jobs import CountingClasses, Estimating, Selecting, TaskJob
from holdfast.sampling.worker import Setup, Worker
from holdfast.validation import check_count

_STORE_BYTES = 2**28
_GPU_BATCHES = 32
_OPEN_PER_WORKER = 4
_SETTLE_S = 5.0
"""What was just given back shows as free a moment later."""


class RayCluster(Compute):
    """Noisy copies are run by the workers of a Ray cluster; needs the extra ``ray``.

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
        self._crew: Crew | None = None
        self._loaded: tuple[bytes, str, int] | None = None

    def __repr__(self) -> str:
        return f"RayCluster(workers={self._workers}, cores_per_worker={self._cores}, address={self._address!r})"

    def engine(self, model: Model, noise: Noise, seed: int, batch: int) -> Engine:
        """An engine whose workers hold the model; they are kept for the next question about the same one."""
        self._ray = import_ray()
        packed = _pack(self._ray, model)
        # What is packed holds the model's skeleton, and so changes with its classes, of which it has the names alone;
        # of a model that cannot be compared it has none.
        loaded = (packed, model.device.type, batch)
        if self._crew is None or loaded != self._loaded or model.fingerprint is None:
            self._dismiss()
            try:
                self._crew, self._loaded = self._crew_for(packed, model, batch), loaded
            except BaseException:
                self.close()
                raise
        return RayEngine(self._crew, Setup(noise, seed, batch))

    def close(self) -> None:
        """End the workers, and Ray as well if it was started here."""
        self._dismiss()
        if self._mine:
            self._ray.shutdown()
        self._mine = False

    def _dismiss(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.dismiss()

    def _crew_for(self, packed: bytes, model: Model, batch: int) -> Crew:
        self._connect(len(packed))
        gpus = 0 if model.device.type == "cpu" else 1
        workers = self._check_room(gpus)
        actor = self._ray.remote(Worker).options(num_cpus=self._cores, num_gpus=gpus, max_restarts=0)
        stored = self._ray.put(packed)
        hire = partial(
            actor.remote, stored, tuple(sys.path), "cpu" if gpus == 0 else "cuda:0", self._cores, model.spot_check()
        )
        return Crew(self._ray, hire, workers, Pace(least=_GPU_BATCHES * batch if gpus else 1))

    def _connect(self, model_bytes: int) -> None:
        if self._ray.is_initialized():
            return
        if self._address is not None:
            _check_reachable(self._address)
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            if self._address is None:
                store = _STORE_BYTES + 4 * model_bytes
                self._ray.init(address="local", include_dashboard=False, object_store_memory=store, **quiet)
            else:
                self._ray.init(address=self._address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            where = "start Ray here" if self._address is None else f"reach a Ray cluster at {self._address}"
            raise ClusterError(f"could not {where}: {reason}; look at 'ray status', or leave --address out") from error
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
                f"use --workers {max(1, room)}, fewer --cores-per-worker, or a larger cluster"
            )
        began = time.monotonic()
        while _room_on(free := self._ray.available_resources(), self._cores, gpus) < wanted:
            if time.monotonic() - began > _SETTLE_S:
                raise ClusterError(
                    f"{asked}, but of the cluster's {_said(cores, cards)} only {_said(free.get('CPU', 0), free.get('GPU', 0))} "
                    f"are free; use fewer --workers, or try again when others are done"
                )
            time.sleep(0.1)
        return wanted


def _room_on(machine: dict[str, float], cores: int, gpus: int) -> int:
    by_cores = int(machine.get("CPU", 0) // cores)
    return min(by_cores, int(machine.get("GPU", 0))) if gpus else by_cores


def _said(cores: float, gpus: float) -> str:
    return f"{cores:g} CPU core{'' if cores == 1 else 's'}" + (
        f" and {gpus:g} GPU{'' if gpus == 1 else 's'}" if gpus else ""
    )


@dataclass(frozen=True, eq=False)
class RayEngine(Engine):
    """Spreads inputs, and the spans of large ones, over a crew."""

    crew: Crew
    setup: Setup

    def answer(self, questions: Iterable[Question], *, on_copies: OnDone) -> Iterator[list[Answer]]:
        """As they are finished; nobody waits for a window to be complete."""
        flow = Answers(questions, self.crew.pace, _OPEN_PER_WORKER * self.crew.workers)
        return self.crew.work(flow, self.setup, on_copies)

    def select(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Selection]:
        """Average scores of all classes."""
        return self._spread(Selecting, tasks, on_copies)

    def estimate(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[Evidence]:
        """Votes, scores and margins."""
        return self._spread(Estimating, tasks, on_copies)

    def count_classes(self, tasks: Sequence[Task], *, on_copies: OnDone) -> list[ClassCounts]:
        """Scores of every class."""
        return self._spread(CountingClasses, tasks, on_copies)

    def _spread(self, kind: type[TaskJob], tasks: Sequence[Task], on_copies: OnDone) -> list[Any]:
        flow: Spread[Any] = Spread(kind, tasks, self.crew.pace, self.crew.workers)
        return [result for some in self.crew.work(flow, self.setup, on_copies) for result in some]


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
            f"nobody answers at {address} ({error}); start a cluster there with 'ray start --head', or leave --address out"
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
            f"a cluster needs Ray, which could not be imported ({error}); {how_to_install('ray')}, or use --engine local"
        ) from error


def _pack(ray: Any, model: Model) -> bytes:
    """The model as bytes that any machine can load."""
    try:
        packed: bytes = ray.cloudpickle.dumps(model.moved(torch.device("cpu")), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # the model is foreign code
        raise ModelError(
            f"the model {model.name} cannot be sent to workers ({type(error).__name__}: {error}); "
            f"it must be one that pickle can copy: no open files, locks or generators in it"
        ) from error
    return packed
