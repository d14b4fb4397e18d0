"""Connections: how many may be open, and for how long a caller may neither ask nor read."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_AHEAD = 2**16
"""Bytes of later requests that are kept."""


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which knows a deadline between requests only, with one for every connection, and a bound on their number.

    - Whoever opens a connection, or has been answered, has ``timeout_keep_alive`` seconds for the headers of the next
      request. Whoever does not read an answer has as long: what waits for them is dropped with the connection.
    - As many connections may be open as may wait to be accepted (``backlog``). One more takes the place of the one that has
      owed a request, or the rest of one, for longest.
    """

    _since: float
    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find room for it."""
        super().connection_made(transport)
        self._start()
        there = [each for each in self.connections if isinstance(each, BoundedProtocol) and not each._closing]
        if len(there) > self.config.backlog:
            min((each for each in there if each._incomplete), key=lambda each: each._since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Once the headers are there, the application sees to the rest."""
        super().data_received(data)
        if self._at_work:
            self._deadline.cancel()

    def handle_events(self) -> None:
        """A next request that comes before its time waits, but reading goes on: otherwise nobody would see that the caller leaves."""
        super().handle_events()
        if self._at_work and not self._incomplete:
            if len(self.conn.trailing_data[0]) > _AHEAD:
                self.transport.abort()
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Wait for the next request, if it is not there already."""
        super().on_response_complete()
        if self._resting:
            self._restart()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request, unless it was answered before all of it came: then there is nothing left to say."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """The caller does not read what was sent."""
        super().pause_writing()
        self._restart()

    def resume_writing(self) -> None:
        """The caller reads."""
        super().resume_writing()
        if self._at_work:
            self._deadline.cancel()

    @property
    def _closing(self) -> bool:
        return self.transport.is_closing()

    @property
    def _resting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _incomplete(self) -> bool:
        return self._resting or self.cycle.more_body

    @property
    def _at_work(self) -> bool:
        return not self._resting and not self.flow.write_paused

    def _restart(self) -> None:
        self._deadline.cancel()
        self._start()

    def _start(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)
