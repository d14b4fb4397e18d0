"""The host check, asked as a server asks an application: with headers that no well-behaved client would send."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from holdfast.service.callers import Keys
from holdfast.service.metrics import Metrics
from holdfast.service.security import SecurityMiddleware
from holdfast.service.shares import FairShare


def answer(*hosts: str, bound_to: str = "127.0.0.1") -> tuple[int, bytes]:
    """Status and body of a request with these Host headers."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", host.encode("latin-1")) for host in hosts]
    scope = {"type": "http", "method": "POST", "path": "/v1/certify", "headers": headers}
    middleware = SecurityMiddleware(
        PlainTextResponse("served"), Metrics(FairShare(128), lambda: True), host=bound_to, keys=Keys()
    )
    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may have an event loop running in this thread
        pool.submit(asyncio.run, middleware(scope, receive, send)).result()
    start, body = sent
    assert (b"cache-control", b"no-store") in start["headers"]
    return start["status"], body["body"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8023", "LocalHost:8023", "127.0.0.1", "[::1]", "[::1]:8023"])
def test_this_machine_is_served_by_each_of_its_names(host: str) -> None:
    assert answer(host) == (200, b"served")
    assert answer(host, bound_to="::1") == (200, b"served")


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        ("evil.example",),
        ("localhost.evil.example:8023",),
        ("127.0.0.1.evil.example",),
        ("localhost@evil.example",),
        ("::1",),
        ("[::1",),
        ("[::2]:8023",),
        ("\xe9",),
        ("localhost", "evil.example"),
        ("evil.example", "localhost"),
        ("localhost, evil.example",),
    ],
)
def test_any_other_host_a_missing_one_and_a_doubled_one_are_refused_as_json(hosts: tuple[str, ...]) -> None:
    status, body = answer(*hosts)
    assert status == 403
    assert "on this machine only" in json.loads(body)["error"]


def test_a_service_for_other_machines_is_served_by_any_name() -> None:
    assert answer("certificates.example", bound_to="0.0.0.0") == (200, b"served")
