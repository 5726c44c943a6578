"""What embedders behind services have in common: requests, responses, and the event loop that makes them.

Each embedder has an event loop in a thread of its own. Threads and other event loops call it at the same time, and
their texts share requests. Only the configured URL is called: redirects and proxies are not followed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from holdfast.core.errors import Reject, RetryLater
from holdfast.core.retry import retry_after_header
from holdfast.pipelines.rag.embed.batcher import Batcher, BatchLimits, FailedRequest, RejectedText
from holdfast.pipelines.rag.http_errors import (
    BUSY_STATUSES,
    FORBIDDEN_STATUSES,
    MAX_INLINE_WAIT,
    ServiceError,
    category_of_status,
    redact,
)
from holdfast.sources.limited_http import DEFAULT_RESPONSE_LIMITS, UNCOMPRESSED, is_compressed, too_large_message

if TYPE_CHECKING:
    import httpx2
    import numpy as np

    from holdfast.pipelines.rag.embed.rate_limiter import SharedRateLimiter

T = TypeVar("T")

TOO_LONG = ("context length", "context_length", "too long", "too large", "exceeds", "maximum tokens", "max tokens")
"""Parts of error messages that mean: a text is too long. The services have no common error code for it."""
MAX_TRIES = 4
"""Tries of one request to a busy service before its documents are postponed."""
DEFAULT_RETRY_AFTER = timedelta(seconds=30)
"""How long a document is postponed if a busy service does not say how long."""


class HttpEmbedder(ABC):
    """The base class of embedders behind services. It is a `RemoteEmbedder`; threads may share one.

    A subclass defines `url`, `request_body` and `vectors_in`, and `key_variable` or `key` if the service needs a key.

    Args:
        model: The name of the model or the deployment.
        dimension: How many numbers a vector has. Default: it is taken from the first response.
        limits: The limits of requests.
        rate_limiter: A rate limit to keep to.
        timeout: How long one whole response may take.
        response_bytes: Bytes of one response.
    """

    key_variable = ""
    """The environment variable with the key, if the service needs one."""

    def __init__(
        self,
        model: str,
        *,
        dimension: int | None = None,
        limits: BatchLimits | None = None,
        rate_limiter: SharedRateLimiter | None = None,
        timeout: timedelta = DEFAULT_RESPONSE_LIMITS.time,
        response_bytes: int = DEFAULT_RESPONSE_LIMITS.size,
    ) -> None:
        self.model = model
        self.window = (limits or BatchLimits()).inputs
        self._limits = limits or BatchLimits()
        self._dimension = dimension
        self._rate_limiter = rate_limiter
        self._timeout = timeout
        self._response_bytes = response_bytes
        self._client: _Client | None = None
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @property
    def name(self) -> str:
        """The identity of the model."""
        return f"{type(self).__name__.lower()}-{self.model}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has. If it is unknown, one request is made to find out."""
        if self._dimension is None:
            self._dimension = len(self.embed_query("dimension"))
        return self._dimension

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row of length one for each text. It blocks: event loops use `embed_async`."""
        client = self._open_client()
        return client.run(self._embed(client, texts)).result()

    def embed_query(self, text: str) -> np.ndarray:
        """Return the vector of a question."""
        vector: np.ndarray = self.embed([text])[0]
        return vector

    async def embed_async(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row of length one for each text."""
        client = self._open_client()
        return await asyncio.wrap_future(client.run(self._embed(client, texts)))

    def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def require_settings(self) -> None:
        """Raise MissingSetting if the address or the key is not set. No request is made."""
        self.url()
        self.key()

    # what a subclass defines

    @abstractmethod
    def url(self) -> str:
        """Return the URL to post to."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that hold the key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    @abstractmethod
    def request_body(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the body of a request, to be encoded as JSON."""

    @abstractmethod
    def vectors_in(self, response: Any) -> list[Any]:
        """Return the vectors in a decoded response, in the order of the texts: lists of numbers, or base64."""

    def key(self) -> str:
        """Return the key, or an empty text if none is needed."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    # one request, on the event loop of the client

    async def _embed(self, client: _Client, texts: Sequence[str]) -> np.ndarray:
        import numpy as np

        if not texts:
            return np.empty((0, self._dimension or 0), np.float32)
        return np.stack(await client.batcher.embed(texts))

    async def _send(self, client: _Client, texts: Sequence[str]) -> Sequence[np.ndarray]:
        """Send one request and return vectors of length one. Wait and repeat it while the service is shortly busy."""
        for _ in range(MAX_TRIES):
            await self._wait_for_turn(client, texts)
            response = await self._post(client, texts)
            if response.status_code not in BUSY_STATUSES:
                return self._read(response, len(texts))
            wait = retry_after_header(response.headers)
            if wait is None or wait.total_seconds() >= MAX_INLINE_WAIT:
                raise RetryLater(f"{self.name} is busy", after=DEFAULT_RETRY_AFTER if wait is None else wait)
            client.not_before = max(client.not_before, asyncio.get_running_loop().time() + wait.total_seconds())
        raise RetryLater(f"{self.name} is still busy after {MAX_TRIES} tries", after=timedelta(seconds=MAX_INLINE_WAIT))

    async def _wait_for_turn(self, client: _Client, texts: Sequence[str]) -> None:
        if self._rate_limiter is not None:
            tokens = sum(map(len, texts)) // 4 + len(texts)
            await asyncio.sleep(await asyncio.to_thread(self._rate_limiter.take, texts=len(texts), tokens=tokens))
        while (left := client.not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    async def _post(self, client: _Client, texts: Sequence[str]) -> _Response:
        import httpx2

        try:
            body = msgspec.json.encode(self.request_body(texts))
        except UnicodeEncodeError as error:
            raise RejectedText(Reject("the text has an unpaired surrogate, which cannot be sent")) from error
        headers = {"content-type": "application/json"} | UNCOMPRESSED | self.headers(self.key())
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                return await self._receive(client.http.stream("POST", self.url(), content=body, headers=headers))
        except (TimeoutError, httpx2.TimeoutException) as error:
            message = f"{self.name} did not answer within {self._timeout.total_seconds():g} s"
            raise ServiceError(message, category="unreachable") from error
        except httpx2.TransportError as error:
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            message = f"{self.name} cannot be reached: {redact(message, self.key())}"
            raise ServiceError(message, category="unreachable") from error

    async def _receive(self, sent: AbstractAsyncContextManager[httpx2.Response]) -> _Response:
        """Read a response up to the limit of its size."""
        async with sent as response:
            if is_compressed(response.headers):
                raise ServiceError(f"{self.name} sent a compressed response, which was not asked for")
            content = bytearray()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > self._response_bytes:
                    raise ServiceError(f"{self.name} cannot be used: {too_large_message(self._response_bytes)}")
            return _Response(response.status_code, response.headers, bytes(content))

    def _read(self, response: _Response, count: int) -> list[np.ndarray]:
        if response.status_code != 200:
            self._refused(response)
        try:
            vectors = [_numbers(vector) for vector in self.vectors_in(msgspec.json.decode(response.content))]
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
            message = f"{self.name} returned a response that cannot be decoded: {error!r}"
            raise ServiceError(message, category="server_error") from error
        if any(vector.ndim != 1 for vector in vectors):
            message = f"{self.name} returned a response that cannot be decoded: no lists of numbers"
            raise ServiceError(message, category="server_error")
        expected = self._dimension or (len(vectors[0]) if vectors else 0)
        if len(vectors) != count or any(len(vector) != expected for vector in vectors):
            raise ServiceError(
                f"{self.name} returned {len(vectors)} vectors of {sorted({len(vector) for vector in vectors})} numbers "
                f"for {count} texts; {expected} numbers each were expected",
                category="server_error",
            )
        self._dimension = expected
        return [_unit(vector, self.name) for vector in vectors]

    def _refused(self, response: _Response) -> NoReturn:
        code = response.status_code
        if code in FORBIDDEN_STATUSES:
            hint = f"; check the environment variable {self.key_variable}" if self.key_variable else ""
            raise ServiceError(f"{self.name} denied access ({code}){hint}", category="authentication")
        message = redact(response.text[:300], self.key())
        category = "configuration" if code == 404 else category_of_status(code)  # 404: there is no such model
        error = ServiceError(f"{self.name} answered {code}: {message}", category=category)
        if code in (400, 413, 422) and any(sign in message.lower() for sign in TOO_LONG):
            raise RejectedText(Reject(f"the text is too long for {self.name}; split into smaller chunks ({message})"))
        if code in (400, 413, 422, 500):  # one of the texts may be the reason
            raise FailedRequest(error)
        raise error

    def _open_client(self) -> _Client:
        with self._lock:
            if self._client is None:
                self._client = _Client(self)
            return self._client

    def _after_fork(self) -> None:
        """Forget the client: a forked child has none of its parent's threads."""
        self._client = None
        self._lock = threading.Lock()


class _Response(msgspec.Struct, frozen=True):
    """A response that was received completely."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The start of the body as text, for messages."""
        return self.content[:2000].decode(errors="replace")


class _Client:
    """The event loop, the HTTP connections and the batcher of one embedder in this process.

    `not_before` is a time of the event loop; only the event loop reads and writes it.
    """

    http: httpx2.AsyncClient
    batcher: Batcher

    def __init__(self, embedder: HttpEmbedder) -> None:
        self.not_before = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"holdfast-{embedder.name}", daemon=True)
        self._thread.start()
        self._embedder = embedder
        self.run(self._open()).result()

    async def _open(self) -> None:
        import httpx2

        embedder = self._embedder
        timeout = embedder._timeout.total_seconds()
        self.http = httpx2.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False)
        self.batcher = Batcher(partial(embedder._send, self), embedder._limits)

    async def _shut_down(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self.http.aclose()
        await asyncio.get_running_loop().shutdown_default_executor()  # its threads waited for the rate limiter

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        self.run(self._shut_down()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _numbers(vector: Any) -> np.ndarray:
    """Decode a vector: a list of numbers, or their bytes in base64."""
    import numpy as np

    if isinstance(vector, str):
        return np.frombuffer(b64decode(vector, validate=True), "<f4").astype(np.float32)
    return np.array(vector, np.float32)


def _unit(vector: np.ndarray, name: str) -> np.ndarray:
    import numpy as np

    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or not length:
        raise ServiceError(f"{name} returned a vector without a direction: its length is {length:g}")
    return vector / np.float32(length)
