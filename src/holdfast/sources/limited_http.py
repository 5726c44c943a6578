"""Limits for the responses of services: how long a whole response may take, and how large it may be.

The timeouts of HTTP libraries are for one read. A service that sends a byte now and then, in its headers or in its
body, is never too slow for them, and a body without an end fills the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol, Self

from msgspec import Struct


class ResponseLimits(Struct, frozen=True, kw_only=True):
    """Limits for one response of a service.

    Attributes:
        time: How long it may take, from the request to its last byte.
        size: Bytes of its body.
    """

    time: timedelta = timedelta(seconds=60)
    size: int = 256 << 20


DEFAULT_RESPONSE_LIMITS = ResponseLimits()

UNCOMPRESSED = {"accept-encoding": "identity"}
"""A compressed body could be a thousand times larger than its bytes, so none is asked for."""


def is_compressed(headers: Mapping[str, str]) -> bool:
    """Return True if a body is compressed, although it was not asked for."""
    return headers.get("content-encoding", "identity").lower() != "identity"


def too_large_message(size: int) -> str:
    """Return the message for a response that is too large."""
    return f"the response has more than {size:,} bytes"


def limited_transport(httpx: Any, httpcore: Any, limits: ResponseLimits = DEFAULT_RESPONSE_LIMITS) -> Any:
    """Return a transport with limits, for the synchronous client of an HTTP library.

    Args:
        httpx: The library: httpx, or httpx2.
        httpcore: The library below it: httpcore, or httpcore2.
        limits: The limits of each response. A response beyond them raises an error of the library: ReadTimeout or
            ReadError.
    """
    return _Transport(httpx, httpcore, limits)


class _Transport:
    """A transport of httpx or httpx2: both have the same classes, and neither knows those of the other."""

    def __init__(self, httpx: Any, httpcore: Any, limits: ResponseLimits) -> None:
        self._httpx = httpx
        self._httpcore = httpcore
        self._limits = limits
        self._clock = _RequestClock(limits.time.total_seconds())
        self._body_type = type("LimitedBody", (_LimitedBody, httpx.SyncByteStream), {})  # the client checks its type
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(), network_backend=_TimedBackend(httpcore.SyncBackend(), self._clock)
        )

    def handle_request(self, request: Any) -> Any:
        """Send a request, and return its response. Its body is not read yet."""
        self._clock.start()
        request.headers.update(UNCOMPRESSED)
        url = request.url
        target = self._httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with self.mapped_errors():
            response = self._pool.handle_request(
                self._httpcore.Request(
                    request.method,
                    target,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        body = self._body_type(response.stream, self)
        answer = self._httpx.Response(
            response.status, headers=response.headers, stream=body, extensions=response.extensions
        )
        if is_compressed(answer.headers):
            answer.close()
            raise self._httpx.ReadError("the response is compressed, which was not asked for")
        return answer

    def limited(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces of a body up to the limit of its size."""
        received = 0
        with self.mapped_errors():
            for piece in pieces:
                received += len(piece)
                if received > self._limits.size:
                    raise self._httpx.ReadError(too_large_message(self._limits.size))
                yield piece

    @contextmanager
    def mapped_errors(self) -> Iterator[None]:
        """Raise the errors of httpx for those of httpcore, as its own transport does."""
        try:
            yield
        except self._httpcore.TimeoutException as error:
            seconds = self._limits.time.total_seconds()
            raise self._httpx.ReadTimeout(str(error) or f"no whole response within {seconds:g} s") from error
        except self._httpcore.ConnectError as error:
            raise self._httpx.ConnectError(str(error)) from error
        except (self._httpcore.NetworkError, self._httpcore.ProtocolError) as error:
            raise self._httpx.ReadError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LimitedBody:
    def __init__(self, stream: Any, transport: _Transport) -> None:
        self._stream = stream
        self._transport = transport

    def __iter__(self) -> Iterator[bytes]:
        return self._transport.limited(self._stream)

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()


class TimeLeft(Protocol):
    """Knows how much time is left for a request."""

    def remaining(self) -> float:
        """Return the seconds that are left. Never 0, because that would mean no timeout."""


class _RequestClock:
    """When the request of each thread has taken too long. A thread has one request at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._local = threading.local()

    def start(self) -> None:
        """Begin to count the time of a request of this thread."""
        self._local.ends = monotonic() + self._seconds

    def remaining(self) -> float:
        """Return the seconds that are left. Never 0, because that would mean no timeout."""
        ends: float = getattr(self._local, "ends", monotonic() + self._seconds)
        return max(ends - monotonic(), 0.001)


class _TimedBackend:
    """Opens connections on which nothing waits longer than the time of the request."""

    def __init__(self, real: Any, clock: _RequestClock) -> None:
        self._real = real
        self._clock = clock

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **options: Any) -> Any:
        stream = self._real.connect_tcp(host, port, shorter_timeout(timeout, self._clock), *more, **options)
        return TimedStream(stream, self._clock)

    def connect_unix_socket(self, path: str, timeout: float | None = None, *more: Any, **options: Any) -> Any:
        return TimedStream(
            self._real.connect_unix_socket(path, shorter_timeout(timeout, self._clock), *more, **options), self._clock
        )

    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds)


class TimedStream:
    """A connection of httpcore or httpcore2 on which no read or write waits longer than the time that is left."""

    def __init__(self, stream: Any, clock: TimeLeft) -> None:
        self._stream = stream
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        received: bytes = self._stream.read(max_bytes, shorter_timeout(timeout, self._clock))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, shorter_timeout(timeout, self._clock))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
        wrapped = self._stream.start_tls(ssl_context, server_hostname, shorter_timeout(timeout, self._clock))
        return TimedStream(wrapped, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def shorter_timeout(timeout: float | None, clock: TimeLeft) -> float:
    """Return a timeout that is not longer than the time that is left."""
    remaining = clock.remaining()
    return remaining if timeout is None else min(timeout, remaining)
