"""Connections for httpx2 that are made only to addresses that were checked, and that end in time."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import httpcore2
import httpx2

from holdfast.pipelines.rag.sources.addresses import addresses, public_addresses
from holdfast.pipelines.rag.sources.limits import Deadline


class CheckedTransport(httpx2.BaseTransport):
    """Sends requests over connections of its own making. Raises what httpcore2 raises."""

    def __init__(self, deadline: Deadline, *, allow_private: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            network_backend=_Checked(deadline, allow_private=allow_private),
            max_keepalive_connections=0,
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, Iterable)
        url = request.url
        where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        answer = self._pool.handle_request(
            httpcore2.Request(
                request.method,
                where,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        assert isinstance(answer.stream, Iterable)
        body = _Body(answer.stream)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


@lru_cache(maxsize=4)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Reads whom to trust once: it takes forty milliseconds."""
    return httpx2.create_ssl_context()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()


class _Checked(httpcore2.NetworkBackend):
    """Looks the name up once, checks what it found, and connects to that. TLS still asks for the name."""

    def __init__(self, deadline: Deadline, *, allow_private: bool) -> None:
        self._deadline = deadline
        self._addresses = addresses if allow_private else public_addresses
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
                    address, port, _sooner(timeout, self._deadline), local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _Timed(stream, self._deadline)
        raise failure


class _Timed(httpcore2.NetworkStream):
    """A connection on which nothing waits longer than there is time left in all, not even for single bytes."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _sooner(timeout, self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _sooner(timeout, self._deadline))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        wrapped = self._stream.start_tls(ssl_context, server_hostname, _sooner(timeout, self._deadline))
        return _Timed(wrapped, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def _sooner(timeout: float | None, deadline: Deadline) -> float:
    left = deadline.left()
    return left if timeout is None else min(timeout, left)
