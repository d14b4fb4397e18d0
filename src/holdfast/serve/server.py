"""Running the service: an address, a bound on connections, logs, a browser, a clean end."""

import errno
import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

import uvicorn

from holdfast.errors import InvalidArgument, RunError
from holdfast.serve.app import create_app
from holdfast.serve.callers import Keys
from holdfast.serve.limits import Limits
from holdfast.serve.protocol import BoundedProtocol
from holdfast.serve.security import ACCESS_LOG, is_loopback
from holdfast.serve.service import Served, Service
from holdfast.validation import check_count

_CLOSING_S = 5
_RESTING_S = 15
_CONNECTIONS = 512
_FILES = 64
_LOG_BYTES = 2**23
_LOG_FILES = 4


def check_address(host: str, port: int, keys: Keys) -> None:
    """Refuse an address that others can reach without a key."""
    check_count("port", port, at_least=0, at_most=65_535)
    if not keys.needed and not is_loopback(host):
        raise InvalidArgument(
            f"host {host} can be reached from other machines, which needs an API key: set HOLDFAST_API_KEY, give a file of "
            f"keys (--keys), or serve this machine only, as 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """Take the address, or say who else may have it."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Named TCP, or asyncio would not turn off the delay that adds 40 ms to every answer.
        taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((host, port))
        except OSError:
            taken.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RunError(
                f"port {port} on {host} is in use, perhaps by another 'holdfast serve'; stop that, or choose another port"
            ) from error
        raise RunError(f"cannot listen on {host}, port {port}: {error}; choose another host or port") from error
    return taken


class _Server(uvicorn.Server):
    """Stops open work before it waits for the connections to close."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """An interrupt, or a request to end."""
        self._service.stop_all()
        super().handle_exit(sig, frame)


def config_for(service: Service, *, host: str, keys: Keys, resting_seconds: int = _RESTING_S) -> uvicorn.Config:
    """uvicorn's options for a service; whoever neither asks nor reads for so long is disconnected."""
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
        timeout_keep_alive=resting_seconds,
    )


def most_connections() -> int:
    """How many connections may be open: they leave room for some that are just being accepted, and for files."""
    if os.name != "posix":
        return _CONNECTIONS
    import resource

    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(8, min(_CONNECTIONS, (descriptors - _FILES) // 4))


def serve(
    served: Served,
    *,
    limits: Limits | None = None,
    host: str = "127.0.0.1",
    port: int = 8023,
    keys: Keys | None = None,
    secret: bytes | None = None,
    access_log: Path | None = None,
    log_level: int = logging.ERROR,
    browser: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Serve until interrupted.

    A caller's open requests may not take all connections, so the queue has at most as many places as there are connections.
    """
    given, known = limits or Limits(), keys or Keys()
    check_address(host, port, known)
    _start_logging(log_level, access_log)
    with listen(host, port) as taken:
        found = taken.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{found}/"
        service = Service(served, replace(given, queue=min(given.queue, most_connections())), secret)
        config = config_for(service, host=host, keys=known)
        taken.listen()  # whoever comes now waits until the server is up
        say(f"serving {served.name} at {url} (Ctrl-C stops)")
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            _Server(config, service).run(sockets=[taken])
        say("stopped")


def _start_logging(level: int, access_log: Path | None) -> None:
    """To stderr from this level on; answers also to a file, of which old parts are deleted."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if access_log is not None:
        try:
            file = RotatingFileHandler(access_log, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="ascii")
        except OSError as error:
            raise RunError(f"cannot write the access log {access_log}: {error}; choose another file") from error
        file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        ACCESS_LOG.addHandler(file)
        ACCESS_LOG.setLevel(logging.INFO)
        ACCESS_LOG.propagate = level <= logging.INFO
