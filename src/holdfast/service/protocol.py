"""Connections: how many may be open, and for how long one may owe a request."""

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a deadline for the headers of every request, and a bound on connections.

    - ``timeout_keep_alive`` seconds after a connection or its last answer, the headers of a request must be there: uvicorn
      waits for ever once their first byte is.
    - As many connections may be open as may wait to be accepted (``backlog``). One more takes the place of the one that has
      owed a request, or the rest of one, for longest.
    """

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find room for it."""
        super().connection_made(transport)
        self._expect_request()
        if len(self.connections) > self.config.backlog:
            there = cast("set[BoundedProtocol]", self.connections)
            last = min((each for each in there if each._incomplete), key=lambda each: each._deadline.when())
            self.connections.discard(last)
            last.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._deadline.cancel()
        self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request, unless it was answered before all of it came: then there is nothing left to say."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._end_if_resting)

    def _end_if_resting(self) -> None:
        if self._resting:
            self.transport.close()  # what was answered is still sent, as fast as it is read

    @property
    def _resting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _incomplete(self) -> bool:
        return self._resting or self.cycle.more_body
