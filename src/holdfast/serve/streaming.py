"""A stream of events, one line of JSON each, that ends its work when nobody listens any more."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.serve.refusals import OutOfTime
from holdfast.serve.requests import AnyServed

NDJSON = "application/x-ndjson"
_LAST_WORDS_S = 30.0


async def gone(receive: Receive) -> None:
    """Returns when the caller has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Sends events as they come. However it ends, ``work`` is closed: the place in the queue and the device are free again."""

    media_type = NDJSON

    def __init__(
        self, events: AsyncIterator[dict[str, Any]], request: AnyServed, seconds: float, work: ExitStack
    ) -> None:
        super().__init__(headers={"X-Request-Id": request.id, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._request = request
        self._seconds = seconds
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until the events end, the caller is gone, or the time is up."""
        with self._work:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(gone(receive))
            try:
                done, _ = await asyncio.wait(
                    {sending, leaving}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    # The stream then ends by itself, with what there is.
                    self._request.stop(OutOfTime(f"not finished within {self._seconds:g} s"))
                    await asyncio.wait({sending, leaving}, timeout=_LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for each in (sending, leaving):
                    each.cancel()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events:
            line = json.dumps(event, allow_nan=False).encode() + b"\n"
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
