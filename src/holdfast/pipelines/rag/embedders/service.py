"""What embedders behind services have in common: one request, its answer, and where it is made.

Requests are made on an event loop of the embedder's own, in a thread of its own: threads and other loops can ask at the
same time, and their texts share requests. Only the configured address is called: no redirect, no proxy is followed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from holdfast.core.errors import Reject, RetryLater
from holdfast.pipelines.rag.asking import BUSY, FORBIDDEN, SHORT, ServiceError, asked_to_wait, without
from holdfast.pipelines.rag.embedders.batcher import BadInput, Batcher, Fault, Limits

if TYPE_CHECKING:
    import httpx2
    import numpy as np

    from holdfast.pipelines.rag.embedders.meter import Meter

T = TypeVar("T")

TOO_LONG = ("context length", "context_length", "too long", "too large", "exceeds", "maximum tokens", "max tokens")
WAITS = 4
"""How often one request is put off for a short while before its documents are."""


class Service(ABC):
    """What the services have in common. A subclass says the address, the headers, the question and the answer."""

    key_variable = ""

    def __init__(
        self,
        model: str,
        *,
        dimension: int | None = None,
        limits: Limits | None = None,
        meter: Meter | None = None,
        timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        self.model = model
        self.window = (limits or Limits()).inputs
        self._limits = limits or Limits()
        self._dimension = dimension
        self._meter = meter
        self._timeout = timeout
        self._home: _Home | None = None
        self._moving = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @property
    def name(self) -> str:
        """The model's identity."""
        return f"{type(self).__name__.lower()}-{self.model}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has. A service that was not told and is not known is asked, once."""
        if self._dimension is None:
            self._dimension = len(self.embed_query("dimension"))
        return self._dimension

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a row of length one for each text, and waits for it. Not for event loops: those have `embed_async`."""
        home = self._at_home()
        return home.call(self._embed(home, texts)).result()

    def embed_query(self, text: str) -> np.ndarray:
        """Gives the vector of a question."""
        vector: np.ndarray = self.embed([text])[0]
        return vector

    async def embed_async(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a row of length one for each text."""
        home = self._at_home()
        return await asyncio.wrap_future(home.call(self._embed(home, texts)))

    def close(self) -> None:
        """Closes the connections. The next question opens them anew."""
        with self._moving:
            home, self._home = self._home, None
        if home is not None:
            home.close()

    def require_settings(self) -> None:
        """Raises MissingSetting if an address or a key is not set. Nobody is asked."""
        self.address()
        self.key()

    # what a subclass says

    @abstractmethod
    def address(self) -> str:
        """Gives the URL to post to."""

    def headers(self, key: str) -> dict[str, str]:
        """Gives the headers that say who asks."""
        return {"authorization": f"Bearer {key}"} if key else {}

    @abstractmethod
    def question(self, texts: Sequence[str]) -> dict[str, Any]:
        """Gives the body of a request."""

    @abstractmethod
    def vectors(self, answer: Any) -> list[Any]:
        """Finds the vectors in an answer, in the order of the texts."""

    def key(self) -> str:
        """Gives the key; empty where none is needed."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    # one request

    async def _embed(self, home: _Home, texts: Sequence[str]) -> np.ndarray:
        import numpy as np

        if not texts:
            return np.empty((0, self._dimension or 0), np.float32)
        return np.stack(await home.batcher.embed(texts))

    async def _send(self, home: _Home, texts: Sequence[str]) -> Sequence[np.ndarray]:
        """Sends one request, waits out what is short, and gives vectors of length one."""
        for _ in range(WAITS):
            await self._wait_for_turn(home, texts)
            answer = await self._post(home, texts)
            if answer.status_code not in BUSY:
                return self._read(answer, len(texts))
            wait = asked_to_wait(answer.headers)
            if wait is None or wait >= SHORT:
                raise RetryLater(f"{self.name} is busy", after=timedelta(seconds=30.0 if wait is None else wait))
            home.not_before = max(home.not_before, asyncio.get_running_loop().time() + wait)
        raise RetryLater(f"{self.name} is still busy after {WAITS} tries", after=timedelta(seconds=SHORT))

    async def _wait_for_turn(self, home: _Home, texts: Sequence[str]) -> None:
        if self._meter is not None:
            tokens = sum(map(len, texts)) // 4 + len(texts)
            await asyncio.sleep(await asyncio.to_thread(self._meter.take, texts=len(texts), tokens=tokens))
        while (left := home.not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    async def _post(self, home: _Home, texts: Sequence[str]) -> httpx2.Response:
        import httpx2

        try:
            body = msgspec.json.encode(self.question(texts))
        except UnicodeEncodeError as error:
            raise BadInput(Reject("the text has half a character in it, which cannot be sent")) from error
        headers = {"content-type": "application/json"} | self.headers(self.key())
        try:
            return await home.client.post(self.address(), content=body, headers=headers)
        except httpx2.TimeoutException as error:
            raise ServiceError(f"{self.name} did not answer within {self._timeout.total_seconds():g} s") from error
        except httpx2.TransportError as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ServiceError(f"{self.name} cannot be reached: {without(said, self.key())}") from error

    def _read(self, answer: httpx2.Response, count: int) -> list[np.ndarray]:
        if answer.status_code != 200:
            self._refused(answer)
        try:
            found = [_numbers(one) for one in self.vectors(msgspec.json.decode(answer.content))]
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
            raise ServiceError(f"{self.name} gave an answer that cannot be understood: {error!r}") from error
        if any(one.ndim != 1 for one in found):
            raise ServiceError(f"{self.name} gave an answer that cannot be understood: no lists of numbers")
        wanted = self._dimension or (len(found[0]) if found else 0)
        if len(found) != count or any(len(one) != wanted for one in found):
            raise ServiceError(
                f"{self.name} gave {len(found)} vectors of {sorted({len(one) for one in found})} numbers for "
                f"{count} texts; {wanted} numbers each were expected"
            )
        self._dimension = wanted
        return [_unit(one, self.name) for one in found]

    def _refused(self, answer: httpx2.Response) -> NoReturn:
        code = answer.status_code
        if code in FORBIDDEN:
            where = f"; check the environment variable {self.key_variable}" if self.key_variable else ""
            raise ServiceError(f"{self.name} does not let us in ({code}){where}")
        said = without(answer.text[:300], self.key())
        error = ServiceError(f"{self.name} answered {code}: {said}")
        if code in (400, 413, 422) and any(sign in said.lower() for sign in TOO_LONG):
            raise BadInput(Reject(f"the text is too long for {self.name}; split into smaller chunks ({said})"))
        if code in (400, 413, 422, 500):  # one of the texts may be why
            raise Fault(error)
        raise error

    def _at_home(self) -> _Home:
        with self._moving:
            if self._home is None:
                self._home = _Home(self)
            return self._home

    def _forget(self) -> None:
        """A forked child has none of the parent's threads."""
        self._home = None
        self._moving = threading.Lock()


class _Home:
    """The loop, the connections and the gathered texts of one service, in this process."""

    def __init__(self, service: Service) -> None:
        self.not_before = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"holdfast-{service.name}", daemon=True)
        self._thread.start()
        self._service = service
        self.call(self._move_in()).result()

    client: httpx2.AsyncClient
    batcher: Batcher

    async def _move_in(self) -> None:
        import httpx2

        service = self._service
        self.client = httpx2.AsyncClient(
            timeout=service._timeout.total_seconds(), trust_env=False, follow_redirects=False
        )
        self.batcher = Batcher(partial(service._send, self), service._limits)

    async def _move_out(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self.client.aclose()
        await asyncio.get_running_loop().shutdown_default_executor()  # it waited for the meter

    def call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        self.call(self._move_out()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _numbers(given: Any) -> np.ndarray:
    """Reads a vector: a list of numbers, or their bytes in base64."""
    import numpy as np

    if isinstance(given, str):
        return np.frombuffer(b64decode(given, validate=True), "<f4").astype(np.float32)
    return np.array(given, np.float32)


def _unit(vector: np.ndarray, name: str) -> np.ndarray:
    import numpy as np

    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or not length:
        raise ServiceError(f"{name} gave a vector that points nowhere")
    return vector / np.float32(length)
