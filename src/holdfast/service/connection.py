"""One caller's connection: a body that arrives in time, and work that ends when nobody waits for it any more."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.service.callers import Caller
from holdfast.service.limits import Limits
from holdfast.service.refusals import Refusal
from holdfast.service.shares import FairShare

T = TypeVar("T")


@dataclass(frozen=True)
class Upload:
    """What somebody sent, and what type they say it has."""

    caller: Caller
    content: bytes
    kind: str


@asynccontextmanager
async def upload_of(request: Request, limits: Limits, room: FairShare) -> AsyncIterator[Upload]:
    """A whole body, within the limits of size and time, and as long as it is needed within the room for all bodies."""
    claimed = request.headers.get("content-length", "0")
    if claimed.isdecimal() and int(claimed) > limits.upload:
        raise Refusal(413, f"expected at most {limits.upload:,} bytes, got {int(claimed):,}")
    caller: Caller = request.scope["caller"]
    content = bytearray()
    try:
        await _arrived(request, content, limits, lambda part: room.take(caller.name, len(part)))
        yield Upload(caller, bytes(content), request.headers.get("content-type", ""))
    finally:
        room.give(caller.name, len(content))


async def _arrived(request: Request, content: bytearray, limits: Limits, fits: Callable[[bytes], bool]) -> None:
    """Wait for all of a body."""
    try:
        async with asyncio.timeout(limits.upload_seconds):
            async for part in request.stream():
                if not fits(part):
                    raise Refusal(429, "too many bodies are on their way; try again later")
                content += part
                if len(content) > limits.upload:
                    raise Refusal(413, f"expected at most {limits.upload:,} bytes, got more")
    except TimeoutError as error:
        raise Refusal(408, f"the body did not arrive within {limits.upload_seconds:g} s") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the body ended early") from error


def out_of_time(seconds: float) -> Refusal:
    """The refusal of what takes too long."""
    return Refusal(503, f"not finished within {seconds:g} s; try again later, or ask for fewer copies")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What comes of the work. If the caller disconnects or the time is up, it is cancelled, and refused."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        done, _ = await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise Refusal(409, "the caller went away") if done else out_of_time(seconds)
    finally:
        working.cancel()
        leaving.cancel()
        # Answered only when that has arrived: until then, what waits in a queue could still begin.
        await asyncio.wait({working, leaving})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """Events as they come, one line of JSON each. However it ends, ``work`` is closed: place and device are free again."""

    media_type = "application/x-ndjson"

    def __init__(self, events: AsyncIterator[dict[str, Any]], identity: str, seconds: float, work: ExitStack) -> None:
        super().__init__(_lines(events), headers={"X-Request-Id": identity, "X-Accel-Buffering": "no"})
        self._seconds = seconds
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until the events end, the caller is gone, or the time is up; then there is nobody to refuse anything to."""
        with self._work, suppress(Refusal):
            await while_connected(receive, self.stream_response(send), self._seconds)


async def _lines(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield json.dumps(event, allow_nan=False).encode() + b"\n"
