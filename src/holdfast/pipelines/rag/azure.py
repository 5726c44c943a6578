"""Azure Document Intelligence as a reader of pages: a page is sent, and its text is asked for until it is there.

One page (or a few) a call, so that what was read is kept page by page and a resumed document pays for none twice.
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
from holdfast.pipelines.rag.asking import (
    BUSY,
    FORBIDDEN,
    ServiceError,
    asked_to_wait,
    backoff,
    from_environment,
    without,
)
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.shrinking import MOST, parts_of

if TYPE_CHECKING:
    import httpx2

ENDPOINT, KEY = "AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT", "AZURE_DOCUMENT_INTELLIGENCE_KEY"
API_VERSION = "2024-11-30"
TRIES = 6
"""How often one request is made before its document is put off."""
PATIENCE = timedelta(minutes=2)
"""How long is waited for a page, all in all: less than its step allows. Whoever is asked to wait longer puts the
document off, which costs it no attempt."""


class AzureReader:
    """Reads PDFs and pictures by a model of Azure Document Intelligence. Threads may share one.

    Each document has one analysis under way at a time; how many documents are read at once is for the step to say.
    What is larger than `most` bytes is made smaller before it is sent. Address and key are given, or come from the
    environment.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        key: str | None = None,
        *,
        model: str = "prebuilt-read",
        pages_at_once: int = 1,
        most: int = MOST,
        patience: timedelta = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if pages_at_once < 1:
            raise ValueError("at least one page a call")
        self._endpoint = endpoint
        self._key = key
        self._model = model
        self._pages_at_once = pages_at_once
        self._most = most
        self._patience = patience
        self._sleep = sleep

    def pages_of(self, path: Path, start: int = 0) -> Iterator[Page]:
        """Gives the pages after the first `start`, as they are read.

        Raises Reject for a file that cannot be read, and RetryLater when the service wants to be left alone for long.
        """
        import httpx2

        number = start
        with httpx2.Client(timeout=60, trust_env=False, follow_redirects=False) as client:
            for count, content in parts_of(path, start=start, at_once=self._pages_at_once, most=self._most):
                result = _Analysis(self, client).result(content, count)
                for text in texts_of(result, count):
                    number += 1
                    yield Page(number, text, how="azure")

    def require_settings(self) -> None:
        """Raises MissingSetting if the address or the key is not set. Nobody is asked."""
        self._address()
        self._secret()

    def _address(self) -> str:
        return (self._endpoint or from_environment(ENDPOINT, "the address of Azure Document Intelligence")).rstrip("/")

    def _secret(self) -> str:
        return self._key or from_environment(KEY, "the key of Azure Document Intelligence")


class _Analysis:
    """One call: a file is sent, and its result asked for until it is there."""

    def __init__(self, reader: AzureReader, client: httpx2.Client) -> None:
        self._reader = reader
        self._client = client
        self._address = reader._address()
        self._left = reader._patience.total_seconds()

    def result(self, content: bytes, count: int) -> Any:
        sent = self._ask("POST", self._question(count), content)
        if sent.status_code != 202:
            raise ServiceError(f"Azure Document Intelligence answered {sent.status_code} where 202 was expected")
        operation = self._operation(sent)
        while True:
            asked = asked_to_wait(sent.headers)
            self._wait(1.0 if asked is None else asked, "is not done with a page")
            sent = self._ask("GET", operation)
            answer = _decoded(sent)
            match answer.get("status"):
                case "succeeded":
                    return answer.get("analyzeResult")
                case "failed" | "canceled":
                    raise _failure(answer.get("error"))

    def _wait(self, seconds: float, why: str) -> None:
        """Waits, or puts the document off when that is longer than anybody has patience for."""
        if seconds > self._left:
            raise _put_off(why, seconds)
        self._left -= max(seconds, 0.05)  # an answer that asks for no pause must not be asked for ever
        self._reader._sleep(seconds)

    def _question(self, count: int) -> str:
        model, pages = quote(self._reader._model, safe=""), "1" if count == 1 else f"1-{count}"
        return (
            f"{self._address}/documentintelligence/documentModels/{model}:analyze"
            f"?api-version={API_VERSION}&pages={pages}&stringIndexType=unicodeCodePoint"
        )

    def _operation(self, sent: httpx2.Response) -> str:
        """Where to ask for the result. The key goes with the question, so it must be where the file went."""
        place: str = sent.headers.get("operation-location", "")
        if urlsplit(place)[:2] != urlsplit(self._address)[:2]:
            raise ServiceError("Azure Document Intelligence names another address for its result; it is not called")
        return place

    def _ask(self, method: str, url: str, content: bytes | None = None) -> httpx2.Response:
        """Makes one request; waits and repeats while the service is busy, out of order or cut off."""
        for attempt in range(1, TRIES + 1):
            answer = self._try(method, url, content)
            wait = backoff(attempt - 1)
            if isinstance(answer, ServiceError):
                if attempt == TRIES:
                    raise answer
                self._wait(wait, "is out of order")
            elif answer.status_code in BUSY:
                asked = asked_to_wait(answer.headers)
                wait = wait if asked is None else asked
                if attempt == TRIES:
                    break
                self._wait(wait, "is busy")
            elif answer.status_code < 300:
                return answer
            else:
                self._refused(answer)
        raise _put_off("is busy", wait)

    def _try(self, method: str, url: str, content: bytes | None) -> httpx2.Response | ServiceError:
        """Gives the answer, or the error of one that is worth another try."""
        import httpx2

        headers = {"ocp-apim-subscription-key": self._reader._secret()}
        if content is not None:
            headers["content-type"] = "application/octet-stream"
        try:
            answer = self._client.request(method, url, content=content, headers=headers)
        except httpx2.TransportError as error:
            return ServiceError(f"Azure Document Intelligence cannot be reached: {type(error).__name__}")
        if answer.status_code >= 500 and answer.status_code not in BUSY:
            return ServiceError(f"Azure Document Intelligence is out of order ({answer.status_code})")
        return answer

    def _refused(self, answer: httpx2.Response) -> None:
        if answer.status_code in FORBIDDEN:
            raise ServiceError(
                f"Azure Document Intelligence does not let us in ({answer.status_code}); "
                f"check the environment variable {KEY}"
            )
        said = without(answer.text[:300], self._reader._secret())
        if answer.status_code in (400, 413, 415):
            raise _failure(_decoded(answer).get("error"), said)
        raise ServiceError(f"Azure Document Intelligence answered {answer.status_code}: {said}")


def _put_off(why: str, seconds: float) -> RetryLater:
    return RetryLater(f"Azure Document Intelligence {why}", after=timedelta(seconds=max(seconds, 1.0)))


def _failure(error: Any, said: str = "") -> Exception:
    """Tells a file that cannot be read from a question that was wrong: only the first is the file's own fault."""
    error = error if isinstance(error, dict) else {}
    inner = error.get("innererror") if isinstance(error.get("innererror"), dict) else {}
    message = str(inner.get("message") or error.get("message") or said or "no reason was given")
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


class _Read(msgspec.Struct, rename="camel"):
    page_number: int = 0
    spans: list[_Span] | None = None
    lines: list[_Line] | None = None


class _Result(msgspec.Struct):
    content: str = ""
    pages: list[_Read] | None = None


def texts_of(result: Any, count: int) -> list[str]:
    """Gives the text of each page in order; a page of which nothing is said has none."""
    try:
        read = msgspec.convert(result or {}, _Result)
    except msgspec.ValidationError as error:
        raise ServiceError(f"Azure Document Intelligence gave a result that cannot be understood: {error}") from error
    texts = [""] * count
    for page in read.pages or ():
        if page.spans:
            text = "".join(read.content[one.offset : one.offset + one.length] for one in page.spans)
        else:
            text = "\n".join(line.content for line in page.lines or ())
        if 1 <= page.page_number <= count:
            texts[page.page_number - 1] = text
    return texts
