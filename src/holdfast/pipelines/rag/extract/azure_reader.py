"""Read pages with Azure Document Intelligence: send a page, then poll until its text is ready.

Each call sends one page or a few, so that results are checkpointed page by page and a resumed document pays for no page
twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec

from holdfast.core.errors import Reject, RetryLater
from holdfast.core.retry import Retry, retry_after_header
from holdfast.pipelines.rag.extract.page_images import MAX_PAGE_BYTES, parts_of
from holdfast.pipelines.rag.http_errors import (
    BUSY_STATUSES,
    FORBIDDEN_STATUSES,
    ServiceError,
    category_of_status,
    redact,
    require_env,
)
from holdfast.pipelines.rag.values import Page
from holdfast.sources.limited_http import DEFAULT_RESPONSE_LIMITS, ResponseLimits, limited_transport

if TYPE_CHECKING:
    import httpx2

ENDPOINT, KEY = "AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT", "AZURE_DOCUMENT_INTELLIGENCE_KEY"
API_VERSION = "2024-11-30"
MAX_TRIES = 6
"""Tries of one request before its document is postponed."""
MAX_TRIES_AWAY = 3
"""Tries of one request to a service that fails or cannot be reached. Then the step is paused for all documents."""
BACKOFF = Retry(ceiling=timedelta(minutes=1))
"""How long to wait between two tries of one request."""
MAX_WAIT = timedelta(minutes=2)
"""Total time to wait for one call; less than the timeout of its step. A document that has to wait longer is postponed,
which costs no attempt."""


class AzureReader:
    """Read PDFs and pictures with a model of Azure Document Intelligence. Threads may share one reader.

    A document has one running analysis at a time. The step limits how many documents are read at once.

    Args:
        endpoint: The URL of the service. Default: the environment variable AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT.
        key: The API key. Default: the environment variable AZURE_DOCUMENT_INTELLIGENCE_KEY.
        model: The model of the service.
        pages_per_call: Pages that are sent with one call.
        max_page_bytes: A larger page is reduced before it is sent.
        max_wait: Total time to wait for one call.
        limits: The limits of one response.
        sleep: Replaces `time.sleep` in tests.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        key: str | None = None,
        *,
        model: str = "prebuilt-read",
        pages_per_call: int = 1,
        max_page_bytes: int = MAX_PAGE_BYTES,
        max_wait: timedelta = MAX_WAIT,
        limits: ResponseLimits = DEFAULT_RESPONSE_LIMITS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if pages_per_call < 1:
            raise ValueError(f"pages_per_call must be at least 1, not {pages_per_call}")
        self._endpoint = endpoint
        self._key = key
        self._model = model
        self._pages_per_call = pages_per_call
        self._max_page_bytes = max_page_bytes
        self._max_wait = max_wait
        self._limits = limits
        self._sleep = sleep

    def pages_of(self, path: Path, start: int = 0) -> Iterator[Page]:
        """Yield the pages after the first `start`, as they are read.

        Raises:
            Reject: The file cannot be read.
            RetryLater: The service is busy for longer than `max_wait`.
            ServiceError: The service failed or refused the request.
        """
        import httpcore2
        import httpx2

        number = start
        timeout = self._limits.time.total_seconds()
        transport = limited_transport(httpx2, httpcore2, self._limits)
        with httpx2.Client(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False) as client:
            for count, content in parts_of(
                path, start=start, pages_per_file=self._pages_per_call, max_bytes=self._max_page_bytes
            ):
                result = _Analysis(self, client).result(content, count)
                for text in texts_of(result, count):
                    number += 1
                    yield Page(number, text, how="azure")

    def require_settings(self) -> None:
        """Raise MissingSetting if the endpoint or the key is not set. No request is made."""
        self._address()
        self._secret()

    def _address(self) -> str:
        return (self._endpoint or require_env(ENDPOINT, "the address of Azure Document Intelligence")).rstrip("/")

    def _secret(self) -> str:
        return self._key or require_env(KEY, "the key of Azure Document Intelligence")


class _Analysis:
    """One call: send a file, then poll for its result."""

    def __init__(self, reader: AzureReader, client: httpx2.Client) -> None:
        self._reader = reader
        self._client = client
        self._address = reader._address()
        self._wait_left = reader._max_wait.total_seconds()

    def result(self, content: bytes, count: int) -> Any:
        sent = self._request("POST", self._analyze_url(count), content)
        if sent.status_code != 202:
            raise ServiceError(f"Azure Document Intelligence answered {sent.status_code}; 202 was expected")
        operation = self._operation_url(sent)
        while True:
            requested = retry_after_header(sent.headers)
            self._wait(1.0 if requested is None else requested.total_seconds(), "has not finished a page")
            sent = self._request("GET", operation)
            answer = _decoded(sent)
            match answer.get("status"):
                case "succeeded":
                    return answer.get("analyzeResult")
                case "failed" | "canceled":
                    raise _failure(answer.get("error"))

    def _wait(self, seconds: float, why: str) -> None:
        """Wait, or postpone the document if that exceeds the total waiting time."""
        if seconds > self._wait_left:
            raise _postponed(why, seconds)
        self._wait_left -= max(seconds, 0.05)  # a service that never asks for a pause must not be polled forever
        self._reader._sleep(seconds)

    def _analyze_url(self, count: int) -> str:
        model, pages = quote(self._reader._model, safe=""), "1" if count == 1 else f"1-{count}"
        return (
            f"{self._address}/documentintelligence/documentModels/{model}:analyze"
            f"?api-version={API_VERSION}&pages={pages}&stringIndexType=unicodeCodePoint"
        )

    def _operation_url(self, sent: httpx2.Response) -> str:
        """Return the URL of the result. The key is sent with the request, so it must be the same host."""
        url: str = sent.headers.get("operation-location", "")
        if urlsplit(url)[:2] != urlsplit(self._address)[:2]:
            raise ServiceError("Azure Document Intelligence returned a result URL on another host; it is not called")
        return url

    def _request(self, method: str, url: str, content: bytes | None = None) -> httpx2.Response:
        """Make one request. Wait and repeat it while the service is busy or fails."""
        for attempt in range(1, MAX_TRIES + 1):
            answer = self._try(method, url, content)
            wait = BACKOFF.wait(attempt).total_seconds()
            if isinstance(answer, ServiceError):
                if attempt >= MAX_TRIES_AWAY:
                    raise answer
                self._wait(wait, "fails")
            elif answer.status_code in BUSY_STATUSES:
                requested = retry_after_header(answer.headers)
                wait = wait if requested is None else requested.total_seconds()
                if attempt == MAX_TRIES:
                    break
                self._wait(wait, "is busy")
            elif answer.status_code < 300:
                return answer
            else:
                self._refused(answer)
        raise _postponed("is busy", wait)

    def _try(self, method: str, url: str, content: bytes | None) -> httpx2.Response | ServiceError:
        """Return the response, or an error if another try may succeed."""
        import httpx2

        headers = {"ocp-apim-subscription-key": self._reader._secret()}
        if content is not None:
            headers["content-type"] = "application/octet-stream"
        try:
            answer = self._client.request(method, url, content=content, headers=headers)
        except httpx2.TransportError as error:
            message = f"Azure Document Intelligence cannot be reached: {type(error).__name__}"
            return ServiceError(message, category="unreachable")
        if answer.status_code >= 500 and answer.status_code not in BUSY_STATUSES:
            message = f"Azure Document Intelligence failed ({answer.status_code})"
            return ServiceError(message, category=category_of_status(answer.status_code))
        return answer

    def _refused(self, answer: httpx2.Response) -> None:
        if answer.status_code in FORBIDDEN_STATUSES:
            raise ServiceError(
                f"Azure Document Intelligence denied access ({answer.status_code}); "
                f"check the environment variable {KEY}",
                category="authentication",
            )
        text = redact(answer.text[:300], self._reader._secret())
        if answer.status_code in (400, 413, 415):
            raise _failure(_decoded(answer).get("error"), text)
        message = f"Azure Document Intelligence answered {answer.status_code}: {text}"
        raise ServiceError(message, category="configuration" if answer.status_code == 404 else None)


def _postponed(why: str, seconds: float) -> RetryLater:
    return RetryLater(f"Azure Document Intelligence {why}", after=timedelta(seconds=max(seconds, 1.0)))


def _failure(error: Any, text: str = "") -> Exception:
    """Return Reject for a file that the service cannot read, and ServiceError for all other failures."""
    error = error if isinstance(error, dict) else {}
    inner = error.get("innererror") if isinstance(error.get("innererror"), dict) else {}
    message = str(inner.get("message") or error.get("message") or text or "no reason was given")
    code = f"{error.get('code', '')} {inner.get('code', '')}"
    if any(sign in code for sign in ("InvalidContent", "CorruptedFile", "UnsupportedContent", "PasswordProtected")):
        return Reject(f"Azure Document Intelligence cannot read the file: {message}")
    return ServiceError(f"Azure Document Intelligence failed ({code.strip() or 'no code'}): {message}")


def _decoded(answer: httpx2.Response) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


class _Span(msgspec.Struct):
    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]


class _Line(msgspec.Struct):
    content: str


class _ReadPage(msgspec.Struct, rename="camel"):
    page_number: int = 0
    spans: list[_Span] | None = None
    lines: list[_Line] | None = None


class _Result(msgspec.Struct):
    content: str = ""
    pages: list[_ReadPage] | None = None


def texts_of(result: Any, count: int) -> list[str]:
    """Return the text of each page, in order; empty for a page that the result does not have."""
    try:
        read = msgspec.convert(result or {}, _Result)
    except msgspec.ValidationError as error:
        raise ServiceError(f"Azure Document Intelligence returned an invalid result: {error}") from error
    texts = [""] * count
    for page in read.pages or ():
        if page.spans:
            text = "".join(read.content[one.offset : one.offset + one.length] for one in page.spans)
        else:
            text = "\n".join(line.content for line in page.lines or ())
        if 1 <= page.page_number <= count:
            texts[page.page_number - 1] = text
    return texts
