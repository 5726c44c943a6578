"""Listening: an application behind an address, for the length of a block."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from holdfast.core.errors import HoldfastError

PATIENCE = 5
"""Seconds in which answers that are under way may come to their end."""


class Serving:
    """A server that runs in a thread of its own. `over` is set when it ended, for whatever reason."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.over = threading.Event()
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=PATIENCE
        )
        self._server = uvicorn.Server(config)
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="holdfast-serve", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Takes no more questions, and waits for the answers that are under way."""
        self._server.should_exit = True
        self._thread.join(timeout=2 * PATIENCE)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        finally:
            self.over.set()


@contextmanager
def serving(app: ASGIApp, host: str, port: int) -> Iterator[Serving]:
    """Serves an application for the length of a block. Port 0 asks for a free one."""
    with _listener(host, port) as listener:
        served = Serving(app, listener)
        served.start()
        try:
            yield served
        finally:
            served.stop()


def _listener(host: str, port: int) -> socket.socket:
    bare = host.strip("[]")
    try:
        family, *_, address = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        raise HoldfastError(
            f"search cannot be served at {host}:{port}: {error}; name another address, or end what is there"
        ) from error
