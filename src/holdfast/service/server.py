"""Running the service: an address, a bound on connections, a browser, a clean end."""

import asyncio
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import uvicorn

from holdfast.errors import InvalidArgument, RunError
from holdfast.service.app import create_app
from holdfast.service.callers import Keys, read_secret
from holdfast.service.limits import Limits, upload_for
from holdfast.service.protocol import BoundedProtocol
from holdfast.service.security import is_loopback
from holdfast.service.service import Served, Service
from holdfast.smoothed import SmoothedClassifier
from holdfast.triage import Triage
from holdfast.validation import check_count
from holdfast.zoo.datasets.labelled import LabelledData

_CLOSING_S = 5
_PATIENCE_S = 15
_CONNECTIONS = 512
_FILES = 64


def check_address(host: str, port: int, keys: Keys) -> None:
    """Refuse an address that others can reach without a key."""
    check_count("port", port, at_least=0, at_most=65_535)
    if not keys.needed and not is_loopback(host):
        raise InvalidArgument(
            f"host {host} can be reached from other machines, which needs an API key: set HOLDFAST_API_KEY, give a file of "
            f"keys (--keys), or serve this machine only, as 127.0.0.1"
        )


def listen(host: str, port: int, *, patience: int = _PATIENCE_S) -> socket.socket:
    """Take the address, or say who else may have it."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.create_server((host, port), family=family, backlog=most_connections())
    except OSError as error:
        said = f"cannot listen on {host}, port {port}: {error.strerror}"
        raise RunError(f"{said}; choose another host or port, or stop what listens there") from error
    # Connections inherit these. Without the first, an answer in two parts takes 40 ms longer: asyncio sets it for sockets of its own only.
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":  # whoever reads nothing for so long is disconnected
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1_000 * patience)
    return taken


class _Server(uvicorn.Server):
    """Ends the work before it waits for the connections to close; a second interrupt ends the wait, and the connections."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Once more interrupted, uvicorn leaves the connections and the application as they are."""
        self._service.scheduler.close()
        ending = asyncio.ensure_future(super().shutdown(sockets))
        while not (self.force_exit or ending.done()):
            await asyncio.sleep(0.1)
        for each in self.server_state.connections:
            each.transport.abort()
        await ending
        if self.force_exit:
            await self.lifespan.shutdown()


def config_for(service: Service, *, host: str, keys: Keys, patience: int = _PATIENCE_S) -> uvicorn.Config:
    """uvicorn's options for a service; whoever asks nothing for so many seconds is disconnected."""
    return uvicorn.Config(
        create_app(service, host=host, keys=keys),
        http=BoundedProtocol,
        log_config=None,
        access_log=False,  # queries may hold seeds
        server_header=False,
        proxy_headers=False,
        ws="none",
        backlog=most_connections(),
        timeout_graceful_shutdown=_CLOSING_S,
        timeout_keep_alive=patience,
    )


def most_connections() -> int:
    """How many connections may be open: they leave room for some that are just being accepted, and for files."""
    if os.name != "posix":
        return _CONNECTIONS
    return max(8, min(_CONNECTIONS, (os.sysconf("SC_OPEN_MAX") - _FILES) // 4))


def serve(
    smoothed: SmoothedClassifier,
    shape: Sequence[int],
    *,
    name: str = "model",
    labels: Sequence[str] = (),
    samples: LabelledData | None = None,
    triage: Triage | None = None,
    drift_every: int = 500,
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    port: int = 8023,
    key: str | None = None,
    keys: Path | None = None,
    secret: Path | None = None,
    browser: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Serve a classifier for inputs of one shape, with a page and over HTTP, until interrupted.

    Each answer is a line of JSON in the log ``holdfast.service.access``, at the level INFO.

    Arguments:
        name: what is served.
        labels: names of the classes.
        samples: inputs that a visitor of the page may pick.
        triage: by which ``POST /v1/triage`` accepts a class or hands the input to a human.
        drift_every: so many inputs of it at a time are compared with the calibration inputs; the result is in ``/v1/model``.
        limits: what one caller may ask; by default, bodies may have as many bytes as inputs of this shape need.
        key, keys: what callers must send: one key, or a file of keys. Needed where others can reach the service.
        secret: a file with what the noise of answers follows from, made if it is not there; by default another one each time.
        browser: whether to open the page.
        say: told where it is served.
    """
    if not isinstance(smoothed, SmoothedClassifier):
        raise InvalidArgument(f"expected a SmoothedClassifier(net, sigma=...) to serve, got {type(smoothed).__name__}")
    if not (isinstance(shape, Sequence) and shape and all(isinstance(size, int) and size > 0 for size in shape)):
        raise InvalidArgument(f"shape must be that of one input, such as (1, 28, 28), got {shape!r}")
    if isinstance(labels, str) or not (isinstance(labels, Sequence) and all(isinstance(each, str) for each in labels)):
        raise InvalidArgument(f"labels must be the names of the classes, such as ['cat', 'dog'], got {labels!r}")
    known = Keys(key, keys)
    check_address(host, port, known)
    served = Served(smoothed, tuple(shape), name, tuple(labels), samples, triage, drift_every)
    # A caller's open requests may not take all connections.
    given, most = limits or Limits(upload=upload_for(shape)), most_connections()
    service = Service(
        served, replace(given, queue=min(given.queue, most)), None if secret is None else read_secret(secret)
    )
    with listen(host, port) as taken:
        url = f"http://{f'[{host}]' if ':' in host else host}:{taken.getsockname()[1]}/"
        config = config_for(service, host=host, keys=known)
        say(f"serving {name} at {url} (Ctrl-C stops)")
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            _Server(config, service).run(sockets=[taken])
        say("stopped")
