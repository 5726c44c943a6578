"""The HTTP server for metrics, with limits: slow, endless and too many clients are cut off.

The server of prometheus_client starts a thread for every connection, and waits for its request without a limit.
"""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from time import monotonic
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from holdfast.core.errors import HoldfastError
from holdfast.core.server_limits import DEFAULT_SERVER_LIMITS, ServerLimits


@contextmanager
def serve_wsgi(
    app: Callable[..., Any], host: str, port: int, *, limits: ServerLimits = DEFAULT_SERVER_LIMITS
) -> Iterator[int]:
    """Serve a WSGI application in a `with` block, in threads of their own. Yield the port; 0 takes a free one.

    Raises:
        HoldfastError: The address cannot be used.
    """
    try:
        server = _Server(host, port, limits)
    except (OSError, OverflowError) as error:
        raise HoldfastError(
            f"metrics cannot be served at {host}:{port}: {error}; use another address, or stop the program that uses it"
        ) from error
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, name="holdfast-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False  # a client that is slow must not keep the program from ending

    def __init__(self, host: str, port: int, limits: ServerLimits) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, address = found[0][0], found[0][4]
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.connections)
        super().__init__((str(address[0]), int(address[1])), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that was cut off, or that has gone, is no error of this program."""


class _Handler(WSGIRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        limits = self.server.limits
        self.connection.settimeout(limits.response.total_seconds())
        self.rfile = io.BufferedReader(_LimitedReader(self.connection, limits))
        self.wfile = _LimitedWriter(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Print no line for a request."""


class _LimitedWriter(io.BufferedIOBase):
    """Writes a response. A client that reads too slowly counts as one that has gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        try:
            self._connection.sendall(data)
        except TimeoutError as error:
            raise ConnectionAbortedError("the client reads too slowly") from error
        return len(data)


class _LimitedReader(io.RawIOBase):
    """Reads a request from a connection, up to a number of bytes and for some time."""

    def __init__(self, connection: socket.socket, limits: ServerLimits) -> None:
        self._connection = connection
        self._ends = monotonic() + limits.request.total_seconds()
        self._limits = limits
        self._left = limits.request_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        seconds = self._ends - monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError("the request is too long, or took too long")
        self._connection.settimeout(seconds)
        try:
            read = self._connection.recv_into(memoryview(buffer)[: self._left])
        finally:
            self._connection.settimeout(self._limits.response.total_seconds())
        self._left -= read
        return read
