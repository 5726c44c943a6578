"""Put the texts of many callers into few requests, and return to each caller its own vectors.

The pipeline embeds many documents at the same time, each with a few chunks. Services charge and limit by the request.
So texts wait a few milliseconds for others, or until a request is full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    import numpy as np

Send = Callable[[Sequence[str]], Awaitable[Sequence["np.ndarray"]]]


class RejectedText(HoldfastError):
    """A service refused one text of a request, and did not say which. `cause` is raised for that text."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class FailedRequest(HoldfastError):
    """A request failed, and one of its texts may be the reason. `cause` is raised for its texts if none is."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class BatchLimits(Struct, frozen=True):
    """The limits of requests.

    Args:
        inputs: Texts in a request.
        characters: Characters in a request. A text that is longer is sent alone.
        concurrency: Requests at the same time.
        linger: Seconds that a text waits for others.
    """

    inputs: int = 64
    characters: int = 200_000
    concurrency: int = 4
    linger: float = 0.005


class _PendingText(Struct):
    text: str
    result: asyncio.Future[np.ndarray]


class _SplitBudget(Struct):
    """How many more failed requests are halved before the service is held responsible instead of a text."""

    left: int


class Batcher:
    """Collect texts and send them. All methods run on one event loop."""

    def __init__(self, send: Send, limits: BatchLimits) -> None:
        self._send = send
        self._limits = limits
        self._waiting: deque[_PendingText] = deque()
        self._free_slots = limits.concurrency
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()

    async def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the vector of each text. Raise the error of the first text that has none, after all are done."""
        loop = asyncio.get_running_loop()
        pending = [_PendingText(text, loop.create_future()) for text in texts]
        self._waiting.extend(pending)
        self._send_full()
        if self._waiting and self._timer is None and self._free_slots:
            self._timer = loop.call_later(self._limits.linger, self._send_all)
        results = await asyncio.gather(*(item.result for item in pending), return_exceptions=True)
        vectors: list[np.ndarray] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            vectors.append(result)
        return vectors

    def _send_full(self) -> None:
        while self._free_slots and self._is_full():
            self._start(self._next_batch())

    def _send_all(self) -> None:
        """Send all waiting texts. Those without a free slot continue to wait for others."""
        self._timer = None
        while self._free_slots and self._waiting:
            self._start(self._next_batch())

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._limits.inputs or (
            sum(len(item.text) for item in self._waiting) >= self._limits.characters and len(self._waiting) > 0
        )

    def _next_batch(self) -> list[_PendingText]:
        """Take as many texts as fit into a request. A text that is too long is taken alone."""
        batch: list[_PendingText] = []
        room = self._limits.characters
        while self._waiting and len(batch) < self._limits.inputs:
            room -= len(self._waiting[0].text)
            if batch and room < 0:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _start(self, batch: list[_PendingText]) -> None:
        self._free_slots -= 1
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _run(self, batch: list[_PendingText]) -> None:
        try:
            await self._resolve(batch, _SplitBudget(2 * len(batch).bit_length() + 1))
        finally:
            self._free_slots += 1
            if self._timer is None:
                self._send_all()
            else:
                self._send_full()

    async def _resolve(self, batch: list[_PendingText], budget: _SplitBudget) -> None:
        """Send texts and set their results. Halve a request that fails because of one of its texts."""
        batch = [item for item in batch if not item.result.done()]  # the callers of the others have gone
        if not batch:
            return
        try:
            vectors = await self._send([item.text for item in batch])
            answered = list(zip(batch, vectors, strict=True))
        except (RejectedText, FailedRequest) as error:
            budget.left -= isinstance(error, FailedRequest)
            if len(batch) == 1 or budget.left < 0:
                _fail(batch, error.cause)
                return
            half = len(batch) // 2
            await self._resolve(batch[:half], budget)
            await self._resolve(batch[half:], budget)
        except BaseException as error:  # callers wait for a result, whatever the error is
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            for item, vector in answered:
                if not item.result.done():
                    item.result.set_result(vector)


def _fail(batch: Sequence[_PendingText], error: BaseException) -> None:
    for item in batch:
        if not item.result.done():
            item.result.set_exception(error)
