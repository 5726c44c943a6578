"""The HTTP server: serve an application at an address. Slow, endless and too many clients are cut off."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.core.errors import HoldfastError
from holdfast.core.server_limits import DEFAULT_SERVER_LIMITS, ServerLimits

SHUTDOWN_SECONDS = 5
"""How long requests that have begun may take when the server stops."""


class ServerThread:
    """A server that runs in its own thread. `stopped` is set when it has ended, for whatever reason."""

    def __init__(self, app: ASGIApp, listener: socket.socket, limits: ServerLimits) -> None:
        self.port: int = listener.getsockname()[1]
        self.stopped = threading.Event()
        config = uvicorn.Config(
            app,
            http=limited_protocol(limits),
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="holdfast-serve", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests, and wait for those that have begun."""
        self._server.should_exit = True
        self._thread.join(timeout=2 * SHUTDOWN_SECONDS)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        finally:
            self.stopped.set()


@contextmanager
def serve_app(
    app: ASGIApp, host: str, port: int, *, limits: ServerLimits = DEFAULT_SERVER_LIMITS
) -> Iterator[ServerThread]:
    """Serve an application for the length of a block. Port 0 takes a free port."""
    with listen(host, port) as listener:
        server = ServerThread(app, listener, limits)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. The protocol is given, because asyncio sets TCP_NODELAY only on TCP sockets."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from error
    try:
        if os.name == "posix":  # on Windows it would let two servers use the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def _cannot_listen(host: str, port: int, error: Exception) -> HoldfastError:
    return HoldfastError(
        f"search cannot be served at {host}:{port}: {error}; use another address, or stop the program that uses it"
    )


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
