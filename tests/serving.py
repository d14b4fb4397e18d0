"""A service on a free port of this machine, for tests: the real server, in a thread."""

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import numpy as np
import uvicorn
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, ProcessCollector
from torch import nn

import holdfast as hf
from holdfast.service.callers import Keys
from holdfast.service.limits import Limits
from holdfast.service.server import config_for, listen
from holdfast.service.service import Served, Service
from networks import small_net

SIGMA = 0.3
SHAPE = (1, 6, 6)
NPY = "application/x-npy"


@dataclass(frozen=True)
class Running:
    """Where it listens, and what is behind it."""

    url: str
    service: Service
    client: httpx.Client

    def certify(self, x: NDArray[np.float32], query: str = "") -> httpx.Response:
        """Ask with an array file."""
        return self.client.post(f"/v1/certify?{query}", content=npy(x), headers={"Content-Type": NPY})

    def decide(self, x: NDArray[np.float32], query: str) -> httpx.Response:
        """Ask with an array file."""
        return self.client.post(f"/v1/decide?{query}", content=npy(x), headers={"Content-Type": NPY})

    def idle(self, within: float = 10.0) -> bool:
        """Whether every place is free again within some seconds."""
        until = time.monotonic() + within
        while self.service.scheduler.places.taken and time.monotonic() < until:
            time.sleep(0.01)
        return self.service.scheduler.places.taken == 0


def npy(x: NDArray[np.generic]) -> bytes:
    """An array file."""
    target = io.BytesIO()
    np.save(target, x, allow_pickle=False)
    return target.getvalue()


def resident_bytes() -> float:
    """Memory of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    found = registry.get_sample_value("process_resident_memory_bytes")
    assert found, "the system does not tell"
    return found


def small_served(net: nn.Module | None = None) -> Served:
    """A small network for (1, 6, 6) images."""
    return Served(hf.SmoothedClassifier(net or small_net(), SIGMA, inputs="images", compile=False), SHAPE)


@contextmanager
def running(
    served: Served | None = None,
    *,
    limits: Limits | None = None,
    keys: Keys | None = None,
    key: str | None = None,
    secret: bytes | None = None,
    patience: int = 15,
    reading_patience: int | None = None,
    send_buffer: int | None = None,
) -> Iterator[Running]:
    """Serve in a thread until the block is left; then everything must end."""
    service = Service(served or small_served(), limits or Limits(), secret)
    taken = listen("127.0.0.1", 0, patience=reading_patience or patience)
    if send_buffer is not None:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    config = config_for(service, host="127.0.0.1", keys=keys or Keys(key), patience=patience)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, timeout=60.0, headers=headers) as client:
        for _ in range(500):
            if server.started:
                break
            time.sleep(0.01)
        try:
            yield Running(url, service, client)
        finally:
            server.should_exit = True
            thread.join(15)
            taken.close()
            assert not thread.is_alive()
            assert not service.scheduler.alive
