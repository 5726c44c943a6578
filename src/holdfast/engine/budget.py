"""Budgets: when to stop, and why. An interruption is not a failure."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from types import FrameType


class Budget:
    """Says when to stop: after a while, or when somebody asks. Work stops at the next item and is given back.

    One within another is over when that one is, and may be stopped before.
    """

    def __init__(self, lasts: timedelta | None = None, *, within: Budget | None = None) -> None:
        self._ends = None if lasts is None else monotonic() + lasts.total_seconds()
        self._reason = ""
        self._within = within
        self.on_stop: Callable[[], object] = bool
        if within is not None:
            within.on_stop = lambda: self.on_stop()  # noqa: PLW0108 - whoever it is by then

    def stop(self, reason: str) -> None:
        """Asks for a stop. The first reason is the one that is told."""
        self._reason = self._reason or reason
        self.on_stop()

    def is_over(self) -> bool:
        """Answers whether it is time to stop."""
        if not self._reason and self._ends is not None and monotonic() >= self._ends:
            self._reason = "its time is up"
        if not self._reason and self._within is not None and self._within.is_over():
            self._reason = self._within.reason
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """Why it stopped; empty while it has not."""
        return self._reason

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        if self._reason:
            return 0.0
        around = float("inf") if self._within is None else self._within.remaining
        return around if self._ends is None else min(max(self._ends - monotonic(), 0.0), around)


@contextmanager
def stopping_on_signals(budget: Budget) -> Iterator[None]:
    """Lets SIGINT and SIGTERM stop the work cleanly. A second one does not wait any longer."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets only the main thread listen to signals
        return

    def listen(number: int, _: FrameType | None) -> None:
        if budget.reason:
            raise KeyboardInterrupt
        budget.stop(signal.Signals(number).name)

    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
