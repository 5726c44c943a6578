"""Limits of the HTTP servers: clients that are slow, endless or too many are cut off."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Limits of one HTTP server.

    Attributes:
        request: How long a client may take to send a whole request, from the connection or its first byte on.
        response: How long the whole response may take: to make it, and for the client to read it.
        request_bytes: Bytes of one request, with its headers. The servers need no bodies.
        connections: How many connections are open at the same time. Further ones are closed at once.
    """

    request: timedelta = timedelta(seconds=10)
    response: timedelta = timedelta(minutes=2)
    request_bytes: int = 64 * 1024
    connections: int = 100


DEFAULT_SERVER_LIMITS = ServerLimits()
