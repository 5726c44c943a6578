"""The HTTP protocol of uvicorn with limits: slow, endless and too many clients are cut off.

uvicorn has no limit on how long a request or a response may take. A few hundred connections that send a byte now and
then would keep everybody else out.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.core.server_limits import ServerLimits


def limited_protocol(limits: ServerLimits) -> type[H11Protocol]:
    """Return a protocol class with these limits, for `uvicorn.Config(http=...)`."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits})


class _LimitedProtocol(H11Protocol):
    limits: ServerLimits

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._times = ""  # what the timer limits: the request, the response, or how long the client reads it
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
        else:
            self._limit("request", self.limits.request)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > self.limits.request_bytes:
            self._cut_off()
            return
        super().data_received(data)
        if self._is_receiving():
            if self._times != "request":
                self._limit("request", self.limits.request)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._limit("response", self.limits.response)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._received = 0
        if self.transport.get_write_buffer_size():
            self._limit("reading", self.limits.response)
        elif not self._is_receiving():  # a body that is still coming is limited as before
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _is_receiving(self) -> bool:
        """Return True if a request has begun and has not ended."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _limit(self, what: str, time: timedelta) -> None:
        self._stop_timer()
        self._times = what
        self._timer = self.loop.call_later(time.total_seconds(), self._cut_off)

    def _stop_timer(self) -> None:
        self._times = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut_off(self) -> None:
        if self._times != "reading" or self.transport.get_write_buffer_size():
            self.transport.abort()
