"""Listening: an application behind an address, for the length of a block."""

from __future__ import annotations

import os
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
    """Listens. The protocol is named, since asyncio sends at once only on sockets that say they are TCP."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise _refused(host, port, error) from error
    try:
        if os.name == "posix":  # elsewhere it would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _refused(host, port, error) from error
    return listener


def _refused(host: str, port: int, error: Exception) -> HoldfastError:
    return HoldfastError(
        f"search cannot be served at {host}:{port}: {error}; name another address, or end what is there"
    )
