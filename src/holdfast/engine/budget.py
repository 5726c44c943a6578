"""Budgets: when a worker stops, and why. A stop is not a failure."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from types import FrameType

HANG_UP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""The signal of a terminal that closes. Windows has none."""


class Budget:
    """When a worker stops: after some time, or when `stop` is called.

    Work stops at the next item. What is finished is committed, and the documents are given back.

    Args:
        lasts: How long the worker may run, counted from now. Without it: until `stop` is called.
        within: Another budget. This one is over when that one is.

    Example:
        budget = holdfast.Budget(timedelta(minutes=10))
        threading.Timer(60, budget.stop, ["a minute is enough"]).start()
        holdfast.drain(papers, store, budget=budget)
    """

    def __init__(self, lasts: timedelta | None = None, *, within: Budget | None = None) -> None:
        self._lasts = lasts
        self._ends = None if lasts is None else monotonic() + lasts.total_seconds()
        self._reason = ""
        self._within = within
        self.on_stop: Callable[[], object] = bool
        if within is not None:
            within.on_stop = lambda: self.on_stop()  # noqa: PLW0108 - on_stop may be replaced later

    def stop(self, reason: str) -> None:
        """Stop the worker at the next item. It may be called from any thread.

        Args:
            reason: Why. The first reason is kept; it is `Report.stopped_by`.
        """
        self._reason = self._reason or reason
        self.on_stop()

    def is_over(self) -> bool:
        """Check whether the budget is over.

        Returns:
            True after `stop`, or when the time is up.
        """
        if not self._reason and self._ends is not None and monotonic() >= self._ends:
            self._reason = "its time is up"
        if not self._reason and self._within is not None and self._within.is_over():
            self._reason = self._within.reason
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """Why the budget is over. Empty until then."""
        return self._reason

    @property
    def lasts(self) -> timedelta | None:
        """How long the worker may run in all. None without a time limit."""
        around = None if self._within is None else self._within.lasts
        return min((one for one in (self._lasts, around) if one is not None), default=None)

    @property
    def remaining(self) -> float:
        """How many seconds are left. Infinite without a time limit."""
        if self._reason:
            return 0.0
        around = float("inf") if self._within is None else self._within.remaining
        return around if self._ends is None else min(max(self._ends - monotonic(), 0.0), around)


@contextmanager
def stopping_on_signals(budget: Budget) -> Iterator[None]:
    """Stop the budget on SIGINT, SIGTERM and SIGHUP. A second SIGINT or SIGTERM raises KeyboardInterrupt.

    SIGHUP comes when a terminal closes, often twice. After the first one it stays ignored, so that the second one does
    not end the program while it finishes. It is left alone if it is ignored, as under nohup, or if the program has a
    handler of its own for it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals in Python
        return

    def listen(number: int, _: FrameType | None) -> None:
        if budget.reason and number != HANG_UP:
            raise KeyboardInterrupt
        budget.stop(signal.Signals(number).name)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if HANG_UP is not None and signal.getsignal(HANG_UP) == signal.SIG_DFL:
        numbers.append(HANG_UP)
    before = {number: signal.signal(number, listen) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            hung_up = number == HANG_UP and budget.reason == signal.Signals(number).name
            signal.signal(number, signal.SIG_IGN if hung_up else handler)
