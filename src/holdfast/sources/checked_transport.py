"""A transport for httpx2 that connects only to checked addresses, and that keeps a deadline."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

import httpcore2
import httpx2

from holdfast.sources.fetch import Deadline
from holdfast.sources.limited_http import TimedStream, shorter_timeout
from holdfast.sources.ssrf_guard import resolve, resolve_public


class CheckedTransport(httpx2.BaseTransport):
    """Sends requests over checked connections. Raises the errors of httpcore2."""

    def __init__(self, deadline: Deadline, *, allow_private: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            network_backend=_CheckedBackend(deadline, allow_private=allow_private),
            max_keepalive_connections=0,
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, Iterable)
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        response = self._pool.handle_request(
            httpcore2.Request(
                request.method,
                target,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        assert isinstance(response.stream, Iterable)
        body = _Body(response.stream)
        return httpx2.Response(response.status, headers=response.headers, stream=body, extensions=response.extensions)

    def close(self) -> None:
        self._pool.close()


@lru_cache(maxsize=4)
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001 - the key of the cache
    """Load the trusted certificates. Cached, because it takes 40 ms."""
    return httpx2.create_ssl_context()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()


class _CheckedBackend(httpcore2.NetworkBackend):
    """Resolves a host once, checks its addresses, and connects to one of these. TLS still verifies the host name."""

    def __init__(self, deadline: Deadline, *, allow_private: bool) -> None:
        self._deadline = deadline
        self._addresses = resolve if allow_private else resolve_public
        self._real = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: Exception = OSError(f"{host} has no address")
        for address in self._addresses(host, port):
            try:
                stream = self._real.connect_tcp(
                    address, port, shorter_timeout(timeout, self._deadline), local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return cast("httpcore2.NetworkStream", TimedStream(stream, self._deadline))
        raise failure
