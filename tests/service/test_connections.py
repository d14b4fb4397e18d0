"""Connections: whoever says nothing, or reads nothing, or opens many, keeps nobody else from being answered."""

import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from holdfast.service.limits import Limits
from networks import images, small_net
from serving import NPY, Running, npy, running, small_served

HEAD = b"POST /v1/certify/stream?n=300000&claims=score HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + NPY.encode()


def connected(url: str) -> socket.socket:
    """With a small buffer, so that whoever does not read is noticed."""
    host, port = url.removeprefix("http://").strip("/").split(":")
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.settimeout(10)
    line.connect((host, int(port)))
    return line


def closed(line: socket.socket, within: float) -> bool:
    """Whether the other side ends the connection within so many seconds."""
    line.settimeout(within)
    try:
        while line.recv(4_096):
            pass  # what was on its way
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@contextmanager
def at_once(url: str, connections: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that say this and no more."""
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(url)) for _ in range(connections)]
        for line in lines:
            line.sendall(said)
        yield lines


@contextmanager
def one_stream_and_one_body() -> Iterator[tuple["subprocess.Popen[str]", socket.socket, socket.socket]]:
    """A service of its own process, with a stream that it sends and a body that does not arrive."""
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--no-open"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert service.stdout is not None
    address = re.search(r"http://\S+/", service.stdout.readline())
    assert address is not None
    body = npy(np.full((1, 28, 28), 0.5, np.float32))
    head = HEAD.replace(b"n=300000", b"n=1000000") + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    with at_once(address[0], 1, head + body) as (stream,), at_once(address[0], 1, head) as (waiting,):
        yield service, stream, waiting


def answered(found: Running) -> bool:
    """Somebody who has just come."""
    return httpx.post(
        f"{found.url}/v1/certify?n=300", content=npy(images(1)[0]), headers={"Content-Type": NPY}, timeout=20.0
    ).is_success


def test_a_connection_without_a_request_is_closed_in_time_and_so_is_one_that_dawdles_over_its_headers() -> None:
    with running(patience=1) as found, at_once(found.url, 2) as (silent, slow):
        began = time.monotonic()
        while time.monotonic() < began + 5:
            try:
                slow.sendall(b"P")
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(0.1)
        assert 0.8 < time.monotonic() - began < 4
        assert closed(silent, within=4)


def test_a_connection_at_work_is_not_closed_and_one_that_asks_again_is_kept() -> None:
    net = small_net()
    net.register_forward_pre_hook(lambda *_: time.sleep(0.02))
    with running(small_served(net), patience=1) as found:
        assert found.certify(images(1)[0], "n=300").is_success
        time.sleep(0.6)
        assert found.certify(images(1)[0], "n=300").is_success
        seconds = found.certify(images(1)[0], "n=6000").json()["provenance"]["seconds"]
        assert seconds > 1, "too few passes for this test: give it more copies"


def test_a_stream_that_is_never_read_is_dropped_and_its_work_with_it() -> None:
    """It would take minutes; with the small buffer of the socket it stalls after a few looks."""
    body = npy(images(1)[0])
    request = HEAD.replace(b"n=300000", b"n=10000000") + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    limits = Limits(copies=10**7)
    with running(limits=limits, patience=1, send_buffer=4_096) as found, at_once(found.url, 1, request + body):
        until = time.monotonic() + 5
        while not found.service.scheduler.places.taken and time.monotonic() < until:
            time.sleep(0.01)
        assert found.service.scheduler.places.taken == 1
        assert found.idle(within=30)


def test_a_large_answer_is_sent_to_its_end_however_slowly_it_is_read() -> None:
    """It lasts for several times what a connection may rest for; with such small buffers, the kernel sees no progress."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        running(patience=1, reading_patience=60, send_buffer=4_096) as found,
        at_once(found.url, 1, request) as (line,),
    ):
        seen, began = line.recv(4_096), time.monotonic()
        length = int(re.search(rb"content-length: (\d+)", seen)[1])  # type: ignore[index]
        head = seen.index(b"\r\n\r\n") + 4
        pause = 5 * 4_096 / length
        while len(seen) < head + length and (part := line.recv(4_096)):
            seen += part
            time.sleep(pause)
        assert time.monotonic() > began + 3
    assert len(seen) == head + length


def test_a_body_that_breaks_after_its_request_was_answered_ends_the_connection_and_says_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running() as found, at_once(found.url, 1, request) as (line,):
        assert b" 404 " in line.recv(4_096)
        line.sendall(b"this is no chunk\r\n")
        assert closed(line, within=5)
        assert answered(found)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_bodies_that_do_not_arrive_take_nobodys_place() -> None:
    with running() as found, at_once(found.url, 140, HEAD + b"\r\nContent-Length: 100\r\n\r\nx"):
        assert found.service.scheduler.places.taken == 0
        assert answered(found)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"POST /v1/certify HTTP/1.1\r\n",
        HEAD + b"\r\nContent-Length: 100\r\n\r\nx",
        b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_one_connection_too_many_takes_the_place_of_the_one_that_has_owed_a_request_for_longest(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr("holdfast.service.server.most_connections", lambda: 10)
    with running() as found, at_once(found.url, 30, said) as lines:
        assert answered(found)
        assert all(closed(line, within=5) for line in lines[:20])
        assert not closed(lines[-1], within=0.1)


def test_a_classifier_is_served_from_python_with_one_call() -> None:
    script = """
import holdfast as hf

smoothed = hf.SmoothedClassifier(hf.load("fashion-mnist"), sigma=0.25)
hf.serve(smoothed, shape=(1, 28, 28), name="mine", labels=["top", "trouser"], port=0)
"""
    service = subprocess.Popen([sys.executable, "-u", "-c", script], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    try:
        said = re.match(r"serving mine at (http://\S+/) \(Ctrl-C stops\)", service.stdout.readline())
        assert said is not None
        model = httpx.get(f"{said[1]}v1/model", timeout=10.0).json()
        assert (model["name"], model["shape"], model["labels"]) == ("mine", [1, 28, 28], ["top", "trouser"])
    finally:
        service.send_signal(signal.SIGINT)
        assert service.communicate(timeout=20)[0].strip() == "stopped"


def test_a_hangup_ends_streams_with_their_last_look_and_refuses_bodies_on_their_way_without_a_traceback() -> None:
    with one_stream_and_one_body() as (service, stream, waiting):
        seen = b""
        while b'"look"' not in seen:
            seen += stream.recv(4_096)
        service.send_signal(signal.SIGHUP)
        while part := stream.recv(4_096):
            seen += part
        last = seen.splitlines()[-4]
        assert b'"stopped", "certificate": {' in last
        assert b"the service is closing" in last
        waiting.settimeout(20)
        assert b" 503 " in waiting.recv(4_096)
        out, errors = service.communicate(timeout=20)
    assert (service.returncode, out.strip()) == (0, "stopped")
    assert "Traceback" not in errors


def test_a_second_interrupt_ends_it_at_once_and_says_no_more_than_the_first() -> None:
    """A body that does not arrive and a stream that is not read would be waited for."""
    with one_stream_and_one_body() as (service, stream, waiting):
        assert b" 200 " in stream.recv(4_096)
        service.send_signal(signal.SIGINT)
        assert not closed(waiting, within=0.5)
        service.send_signal(signal.SIGINT)
        assert closed(waiting, within=10)
        out, errors = service.communicate(timeout=20)
    assert (service.returncode, out.strip(), errors) == (0, "stopped", "")


def test_with_few_descriptors_and_many_idle_connections_others_are_answered_and_the_log_stays_small(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--no-open"]
    with log.open("wb") as file:
        service = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120)),
            env={**os.environ, "COLUMNS": "200"},
        )
    try:
        assert service.stdout is not None
        address = re.search(r"http://\S+/", service.stdout.readline().decode())
        assert address is not None
        with at_once(address[0], 140):
            for _ in range(8):
                assert httpx.get(f"{address[0]}v1/model", timeout=10.0).is_success
                time.sleep(0.1)
    finally:
        service.terminate()
        service.communicate(timeout=20)
    assert log.stat().st_size < 10_000, log.read_text()[:2_000]
