"""The HTTP servers cut off clients that are slow, endless or too many, and serve the others meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.server_limits import ServerLimits
from tests.support.hostile_clients import ask, connect, drip, flood, is_cut_off
from tests.support.polling import wait_for

LIMITS = ServerLimits(
    request=timedelta(seconds=0.2), response=timedelta(seconds=1), request_bytes=20_000, connections=3
)
LARGE = 16_000_000
"""Bytes of a response that no buffer between server and client can hold."""


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Answer /metrics at once, and /large with more than a client that does not read can get."""
    if scope["type"] != "http":
        return
    body = b"x" * LARGE if scope["path"] == "/large" else b"fine"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def _wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = b"x" * LARGE if environ["PATH_INFO"] == "/large" else b"fine"
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture(params=["search", "metrics"], scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of the server of `holdfast serve`, and of that of `holdfast store metrics`."""
    if request.param == "metrics":
        from holdfast.observe.metrics_server import serve_wsgi

        with serve_wsgi(_wsgi, "127.0.0.1", 0, limits=LIMITS) as port:
            yield port
        return
    pytest.importorskip("uvicorn", reason="serving needs the extra web")
    from holdfast.web.server import serve_app

    with serve_app(_app, "127.0.0.1", 0, limits=LIMITS) as server:
        yield server.port


def _is_served(port: int) -> bool:
    try:
        return ask(port, "/metrics").endswith(b"fine")
    except OSError:
        return False


def test_a_client_that_sends_nothing_is_cut_off(port: int) -> None:
    with connect(port) as silent:
        assert is_cut_off(silent)
    wait_for(lambda: _is_served(port))


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /", b"x"),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Slow: y\r\n"),
        (b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["request line", "headers", "body", "chunked body"],
)
def test_a_slow_request_is_cut_off(port: int, start: bytes, piece: bytes) -> None:
    with connect(port) as slow:
        assert drip(slow, start, piece)
    wait_for(lambda: _is_served(port))


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /", b"x" * 1000),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Huge: " + b"y" * 1000 + b"\r\n"),
        (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Huge: ", b"y" * 1000),
        (b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 1000),
        (
            b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3e8\r\n" + b"x" * 1000 + b"\r\n",
        ),
    ],
    ids=["request line", "headers", "one header", "body", "chunked body"],
)
def test_an_endless_request_is_cut_off(port: int, start: bytes, piece: bytes) -> None:
    with connect(port) as endless:
        assert flood(endless, start, piece)
    wait_for(lambda: _is_served(port))


def test_clients_that_do_not_read_are_cut_off(port: int) -> None:
    with ExitStack() as stack:

        def is_full() -> bool:
            """Add a client that asks for a large answer and does not read it. Return True if no other is served."""
            with suppress(OSError):  # there was no room for it
                stack.enter_context(connect(port)).sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return not _is_served(port)

        wait_for(is_full)
        wait_for(lambda: _is_served(port))  # none of them has read a byte, so one was cut off


def test_too_many_connections_are_closed_and_the_others_are_served_again(port: int) -> None:
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(port)) for _ in range(3 * LIMITS.connections)]
        assert all(is_cut_off(one) for one in crowd)
    wait_for(lambda: _is_served(port))


def test_a_second_request_on_a_connection_has_its_own_time(port: int) -> None:
    """A connection may stay open between requests. What it sends next is limited again."""
    with connect(port) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = b""
        while not said.endswith(b"fine"):
            piece = client.recv(65536)
            assert piece
            said += piece
        assert drip(client, b"GET /metrics HTTP/1.1\r\n", b"X-Slow: y\r\n")
    wait_for(lambda: _is_served(port))
