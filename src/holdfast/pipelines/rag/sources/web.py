"""Documents behind http and https: looked at, and fetched in slices that go on where a connection broke.

fsspec is not used for these: it asks for every block of a file anew without saying of which version, and keeps a
thread with a loop, which does not go well with the child processes that parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, BinaryIO

from holdfast.core.errors import Reject, RetryLater
from holdfast.core.retry import retry_after
from holdfast.pipelines.rag.sources.limits import DEFAULT, Deadline, Limits, too_large
from holdfast.pipelines.rag.sources.source import Seen, SourceRefused, Unreachable, kept_time

if TYPE_CHECKING:
    import httpx2

HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "holdfast"}
LONGEST_NUMBER = 18
"""Digits of a length that are believed: more are too many bytes for anybody, however many more."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_NOW = frozenset({425, 429, 503})
"""What servers answer that want to be asked later. That costs no attempt, so only those are believed that say when."""
HEAD_NOT_SPOKEN = frozenset({400, 403, 404, 405, 501})
"""What servers answer to HEAD that do not speak it, or that signed the URL for GET alone."""


def look_at_page(url: str, *, allow_private: bool = False, limits: Limits = DEFAULT) -> Seen:
    """Asks a server what it has, without fetching it."""
    with _client(allow_private=allow_private, deadline=Deadline(limits)) as client:
        with _asked(client, "HEAD", url, limits=limits) as answer:
            if answer.status_code not in HEAD_NOT_SPOKEN:
                return _seen(url, _sound(answer))
        with _asked(client, "GET", url, limits=limits) as answer:
            return _seen(url, _sound(answer))


def fetch_page(url: str, into: BinaryIO, *, allow_private: bool = False, limits: Limits = DEFAULT) -> None:
    """Fetches a document. When the connection breaks, it goes on there, as long as the server has the same version."""
    import httpcore2

    deadline = Deadline(limits)
    with _client(allow_private=allow_private, deadline=deadline) as client:
        fetching = _Fetching(client, url, into, deadline)
        for tries_left in range(limits.resumptions, -1, -1):
            try:
                fetching.go_on()
            except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
                if not tries_left:
                    raise Unreachable(f"the connection to {url} broke: {error}") from error
            else:
                break


class _Fetching:
    """A document on its way. What came is in `into`; `version` is what the server called it, if it may be asked for."""

    def __init__(self, client: httpx2.Client, url: str, into: BinaryIO, deadline: Deadline) -> None:
        self.client = client
        self.url = url
        self.into = into
        self.deadline = deadline
        self.version = ""

    def go_on(self) -> None:
        """Fetches what is missing, or all again when the server has no more of that version."""
        there = self.into.tell()
        headers = {"Range": f"bytes={there}-", "If-Range": self.version} if there and self.version else {}
        with _asked(self.client, "GET", self.url, limits=self.deadline.limits, headers=headers) as answer:
            _begin(_sound(answer), self.into)
            if int(_length(answer) or 0) > self.deadline.limits.size:
                raise too_large(self.url, self.deadline.limits)
            self.version = _version(answer)
            for piece in answer.iter_bytes():
                self.into.write(piece)
                self.deadline.check(self.url)
                if self.into.tell() > self.deadline.limits.size:
                    raise too_large(self.url, self.deadline.limits)


def _begin(answer: httpx2.Response, into: BinaryIO) -> None:
    """Goes to where this answer belongs: behind what is there if it is the rest of that, else to the beginning."""
    rest = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {into.tell()}-")
    if answer.status_code == 206 and not rest:
        raise Unreachable(f"{answer.url} gave another part of the document than it was asked for")
    if not rest:
        into.seek(0)
        into.truncate()


def _version(answer: httpx2.Response) -> str:
    """Gives what the next request may name in If-Range. A weak tag may not, nor one of a body that was compressed."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        return ""
    tag = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else ""


def _seen(url: str, answer: httpx2.Response) -> Seen:
    try:
        moment = parsedate_to_datetime(answer.headers.get("Last-Modified", ""))
        mtime_ns = kept_time(int(moment.timestamp()) * 1_000_000_000)
    except (TypeError, ValueError, OverflowError):
        mtime_ns = 0
    return Seen(url, url, int(_length(answer) or -1), mtime_ns, answer.headers.get("ETag", ""))


def _length(answer: httpx2.Response) -> str:
    """Gives the digits of how long the document is, or nothing if that was not said of the document as it is."""
    length: str = answer.headers.get("Content-Length", "")
    compressed = answer.headers.get("Content-Encoding", "identity") != "identity"
    return length[:LONGEST_NUMBER] if length.isdecimal() and not compressed else ""


def _sound(answer: httpx2.Response) -> httpx2.Response:
    import httpx2

    status = answer.status_code
    if answer.is_success:
        return answer
    wait = retry_after(httpx2.HTTPStatusError("", request=answer.request, response=answer))
    if status in NOT_NOW and wait is not None:
        raise RetryLater(f"{answer.url} answers {status} {answer.reason_phrase}", after=wait)
    if status in NOT_NOW or status == 408 or status >= 500:
        raise Unreachable(f"{answer.url} answers {status} {answer.reason_phrase}")
    if status in (401, 403):
        raise Reject(f"{answer.url} answers {status}: it wants to know who asks; fetch the file by hand")
    raise Reject(f"{answer.url} answers {status} {answer.reason_phrase}; check the URL")


@contextmanager
def _asked(
    client: httpx2.Client, method: str, url: str, *, limits: Limits, headers: dict[str, str] | None = None
) -> Iterator[httpx2.Response]:
    """Asks, follows a few redirects, and gives the answer with its body still to be read."""
    import httpcore2
    import httpx2

    at = _joined(httpx2.URL(), url)
    for _ in range(limits.redirects + 1):
        if at.scheme not in ("http", "https"):
            raise Reject(f"{url} redirects to {at}, which is not on the web")
        request = client.build_request(method, at, headers={**HEADERS, **(headers or {})})
        try:
            answer = client.send(request, stream=True)
        except SourceRefused as error:
            raise Reject(str(error)) from error
        except (httpcore2.TimeoutException, httpcore2.NetworkError, OSError) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Reject(f"{at.host} cannot prove who it is: {error}") from error
            raise Unreachable(f"{at.host} does not answer: {error or 'it took too long'}") from error
        except (httpcore2.ProtocolError, httpx2.HTTPError) as error:
            raise Unreachable(f"{at.host} does not speak HTTP as it should: {error}") from error
        try:
            if answer.status_code not in REDIRECTS or "Location" not in answer.headers:
                yield answer
                return
            at = _joined(at, answer.headers["Location"])
        except httpcore2.TimeoutException as error:
            raise Unreachable(f"{at.host} stopped in the middle of {url}") from error
        except httpx2.DecodingError as error:
            raise Reject(f"{url} is not packed as its server says: {error}") from error
        finally:
            answer.close()
    raise Reject(f"{url} redirects more than {limits.redirects} times")


def _joined(at: httpx2.URL, to: str) -> httpx2.URL:
    import httpx2

    try:
        return at.join(to) if at.host else httpx2.URL(to)
    except httpx2.InvalidURL as error:
        raise Reject(f"{to} is no URL: {error}") from error


def _client(*, allow_private: bool, deadline: Deadline) -> httpx2.Client:
    """Makes a client that knows no proxy of the environment: with one, nobody here sees what is connected to."""
    import httpx2

    from holdfast.pipelines.rag.sources.connecting import CheckedTransport

    silence = deadline.limits.silence.total_seconds()
    transport = CheckedTransport(deadline, allow_private=allow_private)
    return httpx2.Client(transport=transport, trust_env=False, timeout=silence, follow_redirects=False)
