"""The HTTP server: serve an application at an address, for the length of a block."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from holdfast.core.errors import HoldfastError
from holdfast.core.server_limits import DEFAULT_SERVER_LIMITS, ServerLimits
from holdfast.web.limited_protocol import limited_protocol

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
