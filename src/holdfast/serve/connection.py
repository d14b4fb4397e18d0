"""One caller's connection: a body that arrives in time, and work that ends when nobody waits for it any more."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.serve.limits import Limits
from holdfast.serve.refusals import Refusal

T = TypeVar("T")
NDJSON = "application/x-ndjson"


async def read_body(request: Request, limits: Limits) -> bytes:
    """All bytes of a body, within the limits of size and time."""
    claimed = request.headers.get("content-length", "0")
    if claimed.isdecimal() and int(claimed) > limits.upload:
        raise Refusal(413, f"expected at most {limits.upload:,} bytes, got {int(claimed):,}")
    content = bytearray()
    try:
        async with asyncio.timeout(limits.upload_seconds):
            async for part in request.stream():
                content += part
                if len(content) > limits.upload:
                    raise Refusal(413, f"expected at most {limits.upload:,} bytes, got more")
    except TimeoutError as error:
        raise Refusal(408, f"the body did not arrive within {limits.upload_seconds:g} s") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the body ended early") from error
    return bytes(content)


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

    media_type = NDJSON

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
