"""Servers that attack an HTTP client: they answer slowly, without an end, or with too much."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

Send = Callable[[bytes], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class HostileServer:
    """Answers every request with one attack, until the client ends the connection."""

    def __init__(self, attack: Callable[[Send, threading.Event], None]) -> None:
        self._attack = attack
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.requests = 0

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """End all attacks."""
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(30)
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(65536)
                if not received:
                    return
                head += received
            self.requests += 1
            self._attack(connection.sendall, self._ended)


def silence(send: Send, ended: threading.Event) -> None:
    """Send nothing."""
    ended.wait(30)


def slow_headers(send: Send, ended: threading.Event) -> None:
    """Send a header now and then, without an end."""
    send(b"HTTP/1.1 200 OK\r\n")
    while not ended.wait(0.02):
        send(b"X-Slow: y\r\n")


def huge_headers(send: Send, ended: threading.Event) -> None:
    """Send headers as fast as possible, without an end."""
    send(b"HTTP/1.1 200 OK\r\n")
    while not ended.is_set():
        send(b"X-Huge: " + b"y" * 1000 + b"\r\n")


def slow_body(send: Send, ended: threading.Event) -> None:
    """Send a byte of the body now and then."""
    send(OK + b"Content-Length: 1000000\r\n\r\n")
    while not ended.wait(0.02):
        send(b" ")


def endless_body(send: Send, ended: threading.Event) -> None:
    """Send a chunked body as fast as possible, without an end."""
    send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while not ended.is_set():
        send(b"2710\r\n" + b" " * 10_000 + b"\r\n")


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 50_000_000, 1)


def compressed_bomb(send: Send, ended: threading.Event) -> None:
    """Send 50 MB of blanks in 50 KB."""
    body = _bomb()
    send(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    ended.wait(30)


ATTACKS = [silence, slow_headers, huge_headers, slow_body, endless_body, compressed_bomb]


@contextmanager
def hostile_server(attack: Callable[[Send, threading.Event], None]) -> Iterator[HostileServer]:
    """Run a server with one attack."""
    _bomb()  # before a client begins to count its time
    server = HostileServer(attack)
    try:
        yield server
    finally:
        server.close()
