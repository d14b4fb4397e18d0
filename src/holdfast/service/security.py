"""Who may ask, from which page, and the headers that every response carries."""

import asyncio
import ipaddress
import json
import logging
import re
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.service.callers import Caller, Keys
from holdfast.service.metrics import Metrics
from holdfast.service.refusals import Refusal, error_response

OPEN_ROUTES = ("/", "/docs", "/v1/health", "/v1/ready")
"""Answered without a key; so are the files of the page."""

_PAGE_FILES = "/page/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LONGEST = 300
ACCESS_LOG = logging.getLogger("holdfast.service.access")
"""A line of JSON for each answer."""


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class SecurityMiddleware:
    """Wraps the application: says who asks, refuses before anything is read, and counts and logs every answer.

    On loopback, a request must name this machine: otherwise a site whose name was made to point here could speak to
    the service through the visitor's browser (DNS rebinding). Anywhere, a request that a browser sends for another site's
    page is refused. Where there are keys, all but the page itself and the health checks need one.

    The log has a line of JSON for each answer, and why if it is a refusal. Queries and keys are not in it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, host: str, keys: Keys) -> None:
        self._app = app
        self._metrics = metrics
        self._local = is_loopback(host)
        self._names = {*_NAMES, host.lower(), f"[{host.lower()}]"}
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        address = str((scope.get("client") or ["unknown"])[0])
        caller = Caller(address, fresh=True)
        answered = {"address": address, "method": scope["method"], "path": scope["path"][:_LONGEST]}
        began = time.monotonic()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered["status"] = message["status"]
                self._metrics.responses.labels(getattr(scope.get("route"), "path", "other"), message["status"]).inc()
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            scope["caller"] = caller = self._owner(scope) or caller
            await self._app(scope, receive, sending)
        except Refusal as refusal:
            await error_response(scope, refusal.status, str(refusal))(scope, receive, sending)
        except asyncio.CancelledError:  # the server closes, and has waited for long enough
            if "status" not in answered:
                await error_response(scope, 503, "the service is closing")(scope, receive, sending)
        finally:  # also of an answer that its caller did not wait for
            refused = {"refused": scope["refused"][:_LONGEST]} if "refused" in scope else {}
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = {"time": when, "caller": caller.name, **answered, **refused}
            ACCESS_LOG.info(json.dumps({**line, "seconds": round(time.monotonic() - began, 3)}))

    def _owner(self, scope: Scope) -> Caller | None:
        """Whose key was sent; None where none is needed."""
        headers = Headers(scope=scope)
        # Not Starlette's TrustedHostMiddleware: it believes the first of two Host headers, and refuses in plain text.
        host = _only(headers, "host").lower()
        if self._local and re.sub(r":\d*$", "", host) not in self._names:  # without its port
            raise Refusal(
                403, f"this service answers on this machine only, as localhost; the request was for {host[:80]!r}"
            )
        origin = _only(headers, "origin")
        elsewhere = _only(headers, "sec-fetch-site") in ("cross-site", "same-site") and scope["method"] != "GET"
        if elsewhere or (origin and origin.lower().partition("://")[2] != host):
            raise Refusal(403, "a page of another site may not ask this service")
        path: str = scope["path"]
        if not self._keys.needed or path in OPEN_ROUTES or path.startswith(_PAGE_FILES):
            return None
        scheme, _, bearer = _only(headers, "authorization").partition(" ")
        given = bearer if scheme.lower() == "bearer" else _only(headers, "x-api-key")
        owner = self._keys.owner(given)
        if owner is None:
            raise Refusal(401, "expected a key of this service as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'")
        return owner


def _only(headers: Headers, name: str) -> str:
    """A header's value; one that comes twice is no header at all."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else ""
