"""Requests to an HTTP endpoint: a few under way at a time, at a rate, and repeated where it is busy."""

import math
import random
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from itertools import count, islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.errors import InvalidArgument, ModelError, how_to_install
from holdfast.validation import check_count, check_number

if TYPE_CHECKING:
    import httpx

_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
_LONGEST_WAIT = 60.0
SHOWN = 200
"""Characters of an answer that a message quotes."""


class Unanswered(ModelError):
    """An endpoint was busy, or could not be reached, until nobody wanted to wait any more."""


class Endpoint:
    """Where bodies of JSON are posted to. What follows a # in the URL is the version of what answers there.

    Threads do nothing but post: rate, waits and repetitions are the caller's thread's.

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

        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidArgument(
                f"expected the URL of an endpoint, such as https://host/v1/models/net:predict, got {url!r}"
            )
        self.url, self.version = parts._replace(fragment="").geturl(), parts.fragment or None
        self.name = parts.netloc + parts.path
        self.connections = check_count("connections", connections)
        self.pause = 1 / per_second if per_second > 0 else check_number("per_second", per_second, at_least=1e-9)
        self._retries = check_count("retries", retries, at_least=0)
        self._client = httpx.Client(headers=dict(headers), timeout=check_number("timeout", timeout, at_least=1e-3))
        weakref.finalize(self, self._client.close)  # connections that an endpoint keeps alive
        self._threads = ThreadPoolExecutor(self.connections, "holdfast-http")
        self._next = -math.inf

    def post(self, bodies: Iterable[bytes], take: Callable[[int, bytes], None]) -> None:
        """Post the bodies, and give each one's number and answer to ``take``, in order.

        A body is made when there is room for it. After a failure nothing more is posted, what was under way is taken, and the
        first failure is raised.
        """
        following, failure = iter(bodies), None
        under_way = deque((body, self._sent(body)) for body in islice(following, self.connections))
        for number in count():
            if not under_way:
                break
            body, request = under_way.popleft()
            try:
                take(number, self._answer(body, request, 0 if failure else self._retries))
            except ModelError as error:
                failure = failure or error
            if failure is None:
                under_way += ((body, self._sent(body)) for body in islice(following, 1))
        if failure is not None:
            raise failure

    def _sent(self, body: bytes) -> "Future[httpx.Response]":
        """A request that is under way, as soon as the rate allows for it."""
        if (wait := self._next - time.monotonic()) > 0:
            time.sleep(wait)
        self._next = time.monotonic() + self.pause
        headers = {"Content-Type": "application/json"}
        return self._threads.submit(self._client.post, self.url, content=body, headers=headers)

    def _answer(self, body: bytes, request: "Future[httpx.Response]", retries: int) -> bytes:
        """What the endpoint says in the end."""
        import httpx

        for attempt in range(retries + 1):
            wait = min(2.0**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                answer = request.result()
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if answer.is_success:
                    return answer.content
                trouble = f"HTTP {answer.status_code}: {answer.text[:SHOWN]}"
                if answer.status_code not in _AGAIN:
                    raise ModelError(
                        f"{self.name} refused a request ({trouble}); check the URL, the headers and what it takes"
                    )
                wait = _retry_after(answer, wait)
            if attempt < retries:
                time.sleep(wait)
                request = self._sent(body)
        raise Unanswered(f"{self.name} did not answer, {retries + 1} times ({trouble})")


def _retry_after(answer: "httpx.Response", otherwise: float) -> float:
    """How long an endpoint asks to be left alone, within reason."""
    said = answer.headers.get("Retry-After", "")
    return min(float(said), _LONGEST_WAIT) if said.isdecimal() and said.isascii() else otherwise
