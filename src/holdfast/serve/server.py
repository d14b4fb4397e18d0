"""Running the service: an address, a browser, a clean end."""

import errno
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from holdfast.errors import InvalidArgument, RunError
from holdfast.serve.app import create_app
from holdfast.serve.limits import Limits
from holdfast.serve.security import is_loopback
from holdfast.serve.service import Served, Service
from holdfast.validation import check_count

_SHORTEST_KEY = 16
_CLOSING_S = 5


def check_address(host: str, port: int, key: str | None) -> None:
    """Refuse an address that others can reach without a key, and a key that can be guessed."""
    check_count("port", port, at_least=0, at_most=65_535)
    if key is not None and len(key) < _SHORTEST_KEY:
        raise InvalidArgument(
            f"an API key must have at least {_SHORTEST_KEY} characters, got {len(key)}; "
            f"python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    if key is None and not is_loopback(host):
        raise InvalidArgument(
            f"host {host} can be reached from other machines, which needs an API key: set HOLDFAST_API_KEY, or serve this machine "
            f"only, as 127.0.0.1"
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


def serve(
    served: Served, *, limits: Limits, host: str, port: int, key: str | None, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until interrupted."""
    check_address(host, port, key)
    with listen(host, port) as taken:
        found = taken.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{found}/"
        service = Service(served, limits)
        config = uvicorn.Config(
            create_app(service, host=host, key=key),
            log_level="warning",
            access_log=False,  # queries may hold seeds
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_CLOSING_S,
            timeout_keep_alive=15,
        )
        taken.listen()  # whoever comes now waits until the server is up
        say(f"serving {served.name} at {url} (Ctrl-C stops)")
        if browser:
            # What follows the # stays in the browser: a page may know the key, a log may not.
            opened = f"{url}#key={key}" if key else url
            threading.Thread(target=webbrowser.open, args=(opened,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            _Server(config, service).run(sockets=[taken])
        say("stopped")
