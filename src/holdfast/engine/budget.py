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
    """Says when to stop: after a while, or when somebody asks. Work stops at the next item and is given back."""

    def __init__(self, lasts: timedelta | None = None) -> None:
        self._ends = None if lasts is None else monotonic() + lasts.total_seconds()
        self._reason = ""
        self.on_stop: Callable[[], object] = bool

    def stop(self, reason: str) -> None:
        """Asks for a stop. The first reason is the one that is told."""
        self._reason = self._reason or reason
        self.on_stop()

    def is_over(self) -> bool:
        """Answers whether it is time to stop."""
        if not self._reason and self._ends is not None and monotonic() >= self._ends:
            self._reason = "its time is up"
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
        return float("inf") if self._ends is None else max(self._ends - monotonic(), 0.0)


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
