"""Wait for another thread of this process that writes to the same store, but not without end for an effect.

An effect may wait for a thread that uses the store. That thread would wait for the effect, and neither would go on. So
a thread waits for one effect of another thread for a limited time only.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from holdfast.core.errors import BodyError
from holdfast.core.moves import Move, effect_name
from holdfast.stores.group_commit import CALLED_INSIDE_TRANSACTION

EFFECT_LIMIT = 60.0
"""How many seconds a thread waits for one effect of another thread. Effects have to be quick."""

POLL_SECONDS = 0.5
"""How often a thread that waits for another thread checks whether that one is in the same effect for too long."""


class RunningEffect:
    """The move whose effect runs, or None. The thread that writes sets it; threads that wait only read it."""

    __slots__ = ("move",)

    def __init__(self) -> None:
        self.move: Move | None = None


def acquire(lock: Any, running: RunningEffect) -> None:
    """Acquire a lock of `threading`. Raise BodyError if one effect of the thread that has it takes too long."""
    seen, since = running.move, 0.0
    while not lock.acquire(timeout=POLL_SECONDS):
        if running.move is not seen or not since:
            seen, since = running.move, monotonic()
        elif seen is not None and monotonic() - since > EFFECT_LIMIT:
            raise BodyError(
                f"{effect_name(seen)} has been running for more than {EFFECT_LIMIT:.0f} seconds in another thread of "
                "this process, and nobody else can write meanwhile. An effect must be quick, and must not wait for a "
                "thread that uses the same store: to submit a document, it uses tx.submit"
            )


class ThreadLock:
    """A fair lock between the threads of this process: two locks, like the one between processes.

    A thread that has it and wants it again, through another store on the same file, is refused.
    """

    def __init__(self) -> None:
        self._queue = threading.Lock()
        self._lock = threading.Lock()
        self._holder: int | None = None
        self.running = RunningEffect()

    def acquire(self) -> None:
        """Wait for the lock. Raise BodyError if this thread has it, or if it waits too long for an effect."""
        if self._holder == threading.get_ident():
            raise BodyError(CALLED_INSIDE_TRANSACTION)
        acquire(self._queue, self.running)
        try:
            acquire(self._lock, self.running)
        finally:
            self._queue.release()
        self._holder = threading.get_ident()

    def release(self) -> None:
        """Let the next thread go on."""
        self.running.move = self._holder = None
        self._lock.release()
