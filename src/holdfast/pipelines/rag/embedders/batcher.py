"""Puts the texts of many callers into few requests, and gives each caller its own vectors.

Documents come to the embed step side by side, each with a few chunks; a service is paid and throttled by the request.
So texts wait a few milliseconds for company, or until a request is full.
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


class BadInput(HoldfastError):
    """A service refuses one of the texts of a request, and does not say which. `alone` is raised for the one."""

    def __init__(self, alone: BaseException) -> None:
        super().__init__(str(alone))
        self.alone = alone


class Fault(HoldfastError):
    """A request failed, and one of its texts may be why. `alone` is what its callers are told if it is not."""

    def __init__(self, alone: BaseException) -> None:
        super().__init__(str(alone))
        self.alone = alone


class Limits(Struct, frozen=True):
    """How large a request may be, how many are under way at once, and how long a text waits for company."""

    inputs: int = 64
    characters: int = 200_000
    concurrency: int = 4
    linger: float = 0.005


class _Asked(Struct):
    text: str
    answer: asyncio.Future[np.ndarray]


class _Patience(Struct):
    """How many more faults are searched for their text before the service itself is held to be at fault."""

    left: int


class Batcher:
    """Gathers texts and sends them. All its methods belong to one event loop."""

    def __init__(self, send: Send, limits: Limits) -> None:
        self._send = send
        self._limits = limits
        self._waiting: deque[_Asked] = deque()
        self._free = limits.concurrency
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()

    async def embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Gives the vector of each text. Raises for the first that has none; the others are computed all the same."""
        loop = asyncio.get_running_loop()
        asked = [_Asked(text, loop.create_future()) for text in texts]
        self._waiting.extend(asked)
        self._send_full()
        if self._waiting and self._timer is None and self._free:
            self._timer = loop.call_later(self._limits.linger, self._send_all)
        answers = await asyncio.gather(*(one.answer for one in asked), return_exceptions=True)
        vectors: list[np.ndarray] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            vectors.append(answer)
        return vectors

    def _send_full(self) -> None:
        while self._free and self._is_full():
            self._start(self._next())

    def _send_all(self) -> None:
        """Sends what waits. What has no slot goes on gathering company until there is one."""
        self._timer = None
        while self._free and self._waiting:
            self._start(self._next())

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._limits.inputs or (
            sum(len(one.text) for one in self._waiting) >= self._limits.characters and len(self._waiting) > 0
        )

    def _next(self) -> list[_Asked]:
        """Takes as many texts as fit into a request; one that is too large by itself goes alone."""
        taken: list[_Asked] = []
        room = self._limits.characters
        while self._waiting and len(taken) < self._limits.inputs:
            room -= len(self._waiting[0].text)
            if taken and room < 0:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _start(self, asked: list[_Asked]) -> None:
        self._free -= 1
        task = asyncio.get_running_loop().create_task(self._carry(asked))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _carry(self, asked: list[_Asked]) -> None:
        try:
            await self._settle(asked, _Patience(2 * len(asked).bit_length() + 1))
        finally:
            self._free += 1
            if self._timer is None:
                self._send_all()
            else:
                self._send_full()

    async def _settle(self, asked: list[_Asked], patience: _Patience) -> None:
        """Sends texts and hands out what comes back. Halves a request that fails because of one of them."""
        asked = [one for one in asked if not one.answer.done()]  # nobody waits for those any more
        if not asked:
            return
        try:
            vectors = await self._send([one.text for one in asked])
            answered = list(zip(asked, vectors, strict=True))
        except (BadInput, Fault) as error:
            patience.left -= isinstance(error, Fault)
            if len(asked) == 1 or patience.left < 0:
                _tell(asked, error.alone)
                return
            half = len(asked) // 2
            await self._settle(asked[:half], patience)
            await self._settle(asked[half:], patience)
        except BaseException as error:  # whatever it is, callers wait for it
            _tell(asked, error)
            if not isinstance(error, Exception):
                raise
        else:
            for one, vector in answered:
                if not one.answer.done():
                    one.answer.set_result(vector)


def _tell(asked: Sequence[_Asked], error: BaseException) -> None:
    for one in asked:
        if not one.answer.done():
            one.answer.set_exception(error)
