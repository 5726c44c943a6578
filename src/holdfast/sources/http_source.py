"""Documents behind http and https: ask for their size and version, and fetch them. Broken downloads are resumed.

Connections go only to checked addresses, and keep a deadline.

fsspec is not used for these. It requests every block of a file without naming the version, and it keeps a thread with
an event loop, which breaks the child processes that parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, BinaryIO

from holdfast.core.errors import Reject, RetryLater
from holdfast.core.retry import retry_after_header
from holdfast.sources.fetch import DEFAULT_LIMITS, Deadline, FetchLimits, too_large_error
from holdfast.sources.source import SourceFile, SourceRefused, Unreachable, causes, clamp_mtime

if TYPE_CHECKING:
    import httpx2


import os
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

import httpcore2
import httpx2

from holdfast.sources.limited_http import TimedStream, shorter_timeout
from holdfast.sources.ssrf_guard import resolve, resolve_public

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "holdfast"}
MAX_DIGITS = 18
"""Digits of a Content-Length that are read. More digits are too many bytes in any case."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
RETRY_LATER_STATUSES = frozenset({425, 429, 503})
"""Statuses of servers that are busy. Waiting costs no attempt, so it is done only if the server says how long."""
HEAD_UNSUPPORTED = frozenset({400, 403, 404, 405, 501})
"""Answers to HEAD from servers that do not support it, or that signed the URL for GET only."""


def stat_url(url: str, *, allow_private: bool = False, limits: FetchLimits = DEFAULT_LIMITS) -> SourceFile:
    """Ask a server for the size and version of a document, without fetching it."""
    with _client(allow_private=allow_private, deadline=Deadline(limits)) as client:
        with _request(client, "HEAD", url, limits=limits) as response:
            if response.status_code not in HEAD_UNSUPPORTED:
                return _source_file(url, _checked(response))
        with _request(client, "GET", url, limits=limits) as response:
            return _source_file(url, _checked(response))


def fetch_url(url: str, into: BinaryIO, *, allow_private: bool = False, limits: FetchLimits = DEFAULT_LIMITS) -> None:
    """Fetch a document. A broken download is resumed if the server still has the same version."""
    import httpcore2

    deadline = Deadline(limits)
    with _client(allow_private=allow_private, deadline=deadline) as client:
        download = _Download(client, url, into, deadline)
        for tries_left in range(limits.resumptions, -1, -1):
            try:
                download.resume()
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
                if not tries_left:
                    raise Unreachable(f"the connection to {url} broke: {error}") from error
            else:
                break


class _Download:
    """A download. `into` has the bytes received so far. `version` is the ETag if it can be used to resume."""

    def __init__(self, client: httpx2.Client, url: str, into: BinaryIO, deadline: Deadline) -> None:
        self.client = client
        self.url = url
        self.into = into
        self.deadline = deadline
        self.version = ""

    def resume(self) -> None:
        """Fetch the missing part, or everything if the server has another version now."""
        received = self.into.tell()
        headers = {"Range": f"bytes={received}-", "If-Range": self.version} if received and self.version else {}
        with _request(self.client, "GET", self.url, limits=self.deadline.limits, headers=headers) as response:
            _seek(_checked(response), self.into)
            if int(_length(response) or 0) > self.deadline.limits.size:
                raise too_large_error(self.url, self.deadline.limits)
            self.version = _version(response)
            for piece in response.iter_bytes():
                self.into.write(piece)
                self.deadline.check(self.url)
                if self.into.tell() > self.deadline.limits.size:
                    raise too_large_error(self.url, self.deadline.limits)


def _seek(response: httpx2.Response, into: BinaryIO) -> None:
    """Seek to where the body belongs: to the end if it is the missing part, otherwise to the beginning."""
    content_range = response.headers.get("Content-Range", "")
    is_rest = response.status_code == 206 and content_range.startswith(f"bytes {into.tell()}-")
    if response.status_code == 206 and not is_rest:
        raise Unreachable(f"{response.url} sent another part of the document than the requested one")
    if not is_rest:
        into.seek(0)
        into.truncate()


def _version(response: httpx2.Response) -> str:
    """Return the ETag for If-Range. Weak tags, and those of compressed bodies, cannot be used."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return ""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else ""


def _source_file(url: str, response: httpx2.Response) -> SourceFile:
    try:
        modified = parsedate_to_datetime(response.headers.get("Last-Modified", ""))
        mtime_ns = clamp_mtime(int(modified.timestamp()) * 1_000_000_000)
    except (TypeError, ValueError, OverflowError):
        mtime_ns = 0
    return SourceFile(url, url, int(_length(response) or -1), mtime_ns, response.headers.get("ETag", ""))


def _length(response: httpx2.Response) -> str:
    """Return the digits of the document's length. Empty if it is unknown, or the length of a compressed body."""
    length: str = response.headers.get("Content-Length", "")
    compressed = response.headers.get("Content-Encoding", "identity") != "identity"
    return length[:MAX_DIGITS] if length.isdecimal() and not compressed else ""


def _checked(response: httpx2.Response) -> httpx2.Response:
    """Return the response if it is a success, otherwise raise the error that it means."""
    status, reason = response.status_code, response.reason_phrase
    if response.is_success:
        return response
    wait = retry_after_header(response.headers)
    if status in RETRY_LATER_STATUSES and wait is not None:
        raise RetryLater(f"{response.url} answers {status} {reason}", after=wait)
    if status in RETRY_LATER_STATUSES or status == 408 or status >= 500:
        raise Unreachable(f"{response.url} answers {status} {reason}")
    if status in (401, 403):
        raise Reject(f"{response.url} answers {status}: it requires a login; download the file yourself")
    raise Reject(f"{response.url} answers {status} {reason}; check the URL")


@contextmanager
def _request(
    client: httpx2.Client, method: str, url: str, *, limits: FetchLimits, headers: dict[str, str] | None = None
) -> Iterator[httpx2.Response]:
    """Send a request, follow redirects, and yield the response. Its body is not read yet."""
    import ssl

    import httpcore2
    import httpx2

    target = _joined(httpx2.URL(), url)
    for _ in range(limits.redirects + 1):
        if target.scheme not in ("http", "https"):
            raise Reject(f"{url} redirects to {target}, which is not http or https")
        request = client.build_request(method, target, headers={**HEADERS, **(headers or {})})
        try:
            response = client.send(request, stream=True)
        except SourceRefused as error:
            raise Reject(str(error)) from error
        except (httpcore2.TimeoutException, httpcore2.NetworkError, OSError) as error:
            if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error)):
                raise Reject(f"the certificate of {target.host} is not valid: {error}") from error
            raise Unreachable(f"{target.host} does not answer: {error or 'timeout'}") from error
        except (httpcore2.ProtocolError, httpx2.HTTPError) as error:
            raise Unreachable(f"{target.host} violates the HTTP protocol: {error}") from error
        try:
            if response.status_code not in REDIRECTS or "Location" not in response.headers:
                yield response
                return
            target = _joined(target, response.headers["Location"])
        except httpcore2.TimeoutException as error:
            raise Unreachable(f"{target.host} stopped in the middle of {url}") from error
        except httpx2.DecodingError as error:
            raise Reject(f"{url} is not compressed as its server says: {error}") from error
        finally:
            response.close()
    raise Reject(f"{url} redirects more than {limits.redirects} times")


def _joined(base: httpx2.URL, to: str) -> httpx2.URL:
    import httpx2

    try:
        return base.join(to) if base.host else httpx2.URL(to)
    except httpx2.InvalidURL as error:
        raise Reject(f"{to} is not a URL: {error}") from error


def _client(*, allow_private: bool, deadline: Deadline) -> httpx2.Client:
    """Create a client that ignores proxies of the environment. Through a proxy, addresses could not be checked."""
    import httpx2

    from holdfast.sources.http_source import CheckedTransport

    silence = deadline.limits.silence.total_seconds()
    transport = CheckedTransport(deadline, allow_private=allow_private)
    return httpx2.Client(transport=transport, trust_env=False, timeout=silence, follow_redirects=False)


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
