"""Clients that attack an HTTP server: slow, endless and silent ones. All return when the server cuts them off."""

from __future__ import annotations

import socket
from contextlib import suppress
from time import monotonic, sleep

GIVE_UP = 30.0
"""Seconds after which a server that does not cut a client off fails the test."""
GOOD = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def connect(port: int) -> socket.socket:
    """Open a connection."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(port: int, path: str) -> bytes:
    """Send a good request, and return the whole response."""
    with connect(port) as connection:
        connection.sendall(GOOD % path.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def is_cut_off(connection: socket.socket) -> bool:
    """Wait until the server ends the connection. Return False if it does not."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def drip(connection: socket.socket, start: bytes, piece: bytes) -> bool:
    """Send a start, then a piece again and again, slowly and without end. Return True if the server ends it."""
    return _send_until_cut(connection, start, piece, pause=0.02)


def flood(connection: socket.socket, start: bytes, piece: bytes) -> bool:
    """Send a start, then a piece again and again, as fast as possible. Return True if the server ends it."""
    return _send_until_cut(connection, start, piece, pause=0.0)


def _send_until_cut(connection: socket.socket, start: bytes, piece: bytes, *, pause: float) -> bool:
    ends = monotonic() + GIVE_UP
    with suppress(OSError):
        connection.sendall(start)
        while monotonic() < ends:
            connection.sendall(piece)
            if _has_ended(connection):
                return True
            sleep(pause)
    return monotonic() < ends


def _has_ended(connection: socket.socket) -> bool:
    """Return True if the server has closed the connection, whatever it sent before."""
    connection.setblocking(False)
    try:
        return connection.recv(65536) == b""
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(GIVE_UP)
