"""Requests to an HTTP endpoint: a few under way at a time, at a rate, and repeated where it is busy."""

import math
import random
import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count, islice
from threading import Thread
from urllib.parse import urlsplit

from holdfast.errors import InvalidArgument, ModelError, how_to_install
from holdfast.validation import check_count, check_number

_RETRIED = frozenset((408, 425, 429, 500, 502, 503, 504))
_LONGEST_WAIT = 60.0
_A_DAY = 86_400.0
_LARGEST = 2**26
_HEADER, _HEADER_TEXT = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII), re.compile(r"([!-~]([\t -~]*[!-~])?)?")
SHOWN = 200
"""Characters of an answer that a message quotes."""


class Unanswered(ModelError):
    """An endpoint was busy, or could not be reached, until nobody wanted to wait, or to send, any more."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    retry_after: str
    content: bytes


class Endpoint:
    """Where bodies of JSON are posted to. What follows a # in the URL is the version of what answers there.

    Threads do nothing but post, and keep no process alive: rate, waits and repetitions are the caller's thread's.

    Parameters:
        connections: requests under way at a time.
        per_second: at most so many requests.
        retries: how often a request is repeated when the endpoint is busy or cannot be reached; waits double.
        timeout: seconds for one answer.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connections: int,
        per_second: float,
        retries: int,
        timeout: float,
    ) -> None:
        if find_spec("httpx") is None:
            raise InvalidArgument(f"HTTP endpoints need httpx: {how_to_install('http')}")
        import httpx

        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(httpx.URL(url).host)
        except (AttributeError, TypeError, ValueError, httpx.InvalidURL):
            usable = False
        if not usable:
            raise InvalidArgument(
                f"expected the URL of an endpoint, such as https://host/v1/models/net:predict, got {url!r}"
            )
        self.url, self.version = parts._replace(fragment="").geturl(), parts.fragment or None
        self.name = parts.netloc + parts.path
        self.connections = check_count("connections", connections)
        self.pause = 0.0 if per_second == math.inf else 1 / check_number("per_second", per_second, at_least=1e-3)
        self._retries = check_count("retries", retries, at_least=0)
        self._timeout = min(check_number("timeout", timeout, at_least=1e-3), _A_DAY)
        _check_headers(headers)
        try:
            self._client = httpx.Client(headers={"Content-Type": "application/json", **headers}, timeout=self._timeout)
        except (ImportError, ValueError) as error:
            raise InvalidArgument(
                f"the proxy that the environment names cannot be used ({error}); change HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
            ) from error
        weakref.finalize(self, self._client.close)  # connections that an endpoint keeps alive
        self._next = -math.inf
        self.allow(None)

    def allow(self, requests: int | None) -> None:
        """Send at most so many from now on, repetitions included; None for any number."""
        self._allowed, self._left = requests, math.inf if requests is None else requests

    def post(self, bodies: Iterable[bytes], take: Callable[[int, bytes], None]) -> None:
        """Post the bodies, and give each one's number and answer to ``take``, in order.

        A body is made when there is room for it. After a failure nothing more is posted, what was under way is taken, and the
        first failure is raised.
        """
        following, failure = iter(bodies), None
        under_way = deque((body, self._send(body)) for body in islice(following, self.connections))
        for number in count():
            if not under_way:
                break
            body, request = under_way.popleft()
            try:
                take(number, self._answer(body, request, 0 if failure else self._retries))
            except ModelError as error:
                failure = failure or error
            if failure is None:
                under_way += ((body, self._send(body)) for body in islice(following, 1))
        if failure is not None:
            raise failure

    def _send(self, body: bytes, *, wait: float = 0.0) -> "Future[Answer]":
        """A request that is under way, after a wait and as soon as the rate allows for it; or that failed, if no more are allowed."""
        sent = Future[Answer]()
        if self._left < 1:
            sent.set_exception(
                Unanswered(
                    f"{self.name} was sent most_requests={self._allowed:,} requests about one question, repetitions included; "
                    f"allow more"
                )
            )
            return sent
        self._left -= 1
        if (wait := max(wait, self._next - time.monotonic())) > 0:
            time.sleep(wait)
        self._next = time.monotonic() + self.pause

        def run() -> None:
            try:
                sent.set_result(self._posted(body))
            except BaseException as error:  # whoever waits for it raises it
                sent.set_exception(error)

        Thread(target=run, name="holdfast-http", daemon=True).start()
        return sent

    def _posted(self, body: bytes) -> Answer:
        import httpx

        until, content = time.monotonic() + self._timeout, bytearray()
        with self._client.stream("POST", self.url, content=body) as answer:
            for part in answer.iter_bytes():
                content += part
                if len(content) > _LARGEST:
                    raise httpx.ReadError(f"an answer of more than {_LARGEST:,} bytes")
                if time.monotonic() > until:
                    raise httpx.ReadTimeout(f"an answer that takes more than timeout={self._timeout:g} seconds")
            return Answer(answer.status_code, answer.headers.get("Retry-After", ""), bytes(content))

    def _answer(self, body: bytes, request: "Future[Answer]", retries: int) -> bytes:
        """What the endpoint says in the end."""
        import httpx

        for attempt in range(retries + 1):
            wait = min(2.0**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                answer = request.result()
            except httpx.LocalProtocolError as error:
                raise ModelError(f"a request to {self.name} cannot be sent ({error}); check the headers") from error
            except httpx.RequestError as error:
                trouble = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if 200 <= answer.status < 300:
                    return answer.content
                trouble = f"HTTP {answer.status}: {answer.content[:SHOWN].decode(errors='replace')}"
                if answer.status not in _RETRIED:
                    raise ModelError(
                        f"{self.name} refused a request ({trouble}); check the URL, the headers and what it takes"
                    )
                if answer.retry_after.isascii() and answer.retry_after.isdecimal():
                    # How long it asks to be left alone, within reason.
                    wait = min(float(answer.retry_after), _LONGEST_WAIT)
            if attempt < retries:
                request = self._send(body, wait=wait)
        raise Unanswered(f"{self.name} did not answer, {retries + 1} times ({trouble})")


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuse what no request could be sent with; values are secrets, and not repeated."""
    if not isinstance(headers, Mapping):
        raise InvalidArgument(f"headers must map names to texts, got {type(headers).__name__}")
    for name, text in headers.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise InvalidArgument(f"headers must have names such as X-API-Key, got {name!r}")
        if not isinstance(text, str) or not _HEADER_TEXT.fullmatch(text):
            raise InvalidArgument(
                f"the header {name} must be one line of printable ASCII, as a text, without spaces or line ends around it; "
                f"text.strip() removes these"
            )
