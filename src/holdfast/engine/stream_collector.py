"""Collect what a stream yields until it is time to commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Lock, get_ident
from time import monotonic
from typing import Any, Protocol

from holdfast.core.codec import checked_json
from holdfast.core.errors import BodyError, CursorMovedBack
from holdfast.core.model import Item
from holdfast.core.move_rules import moved_on
from holdfast.core.step import NOTHING, AnyStep, At, CommitEvery, Last, Total
from holdfast.engine.executor_requests import Pulled, PullStream

DEFAULT_COMMIT_SECONDS = 0.005
"""Seconds of a stream's work that share one commit, without `commit_every`. A crash repeats this much work."""

MAX_ITEMS = 1000
MAX_BYTES = 4 * 1024 * 1024
"""A stream is committed after this many items or bytes at the latest, even if `commit_every` is longer."""


MAX_TOTAL = 2**53
"""No stream yields more items. Every database and every JSON reader keeps such a number as it is."""


class StopSignals(Protocol):
    """Tell when a stream has to stop at its next item."""

    @property
    def lost(self) -> bool:
        """True if what the stream yields is of no use any more."""

    @property
    def stopping(self) -> Callable[[], bool]:
        """A function that returns True if the worker stops."""


class Collector:
    """Collect what a stream yields until it is time to commit. `take` runs once per item: it is the hottest code."""

    def __init__(self, step: AnyStep, call: PullStream, caller: StopSignals) -> None:
        self.step = step
        self.cursor = call.cursor
        self.position = call.position
        self.caller = caller
        self.stopping = caller.stopping
        self.items: list[Item] = []
        self.values: list[Any] = []
        self.size = 0
        self.moved = 0
        self.own_cursor = False
        self.said_end = False  # whether the stream yielded At(None)
        self.total: int | None = None  # how many items it said it will yield
        self.count, self.until = _commit_limits(step.options.commit_every)
        self.began = monotonic()
        self.transactions = 0
        self._thread = get_ident()
        self._keep = step.codec_of_item.encode if step.options.keep else None
        self._has_effect = step.effect_body is not None

    def take(self, yielded: Any) -> bool:
        """Add one yielded value. Return True if it is time to commit."""
        kind = type(yielded)
        if kind is Last:
            Collector.take(self, yielded.yielded)
            return self.said_end  # False: the stream ends next; this value is committed together with its end
        if kind is Total:
            self.total = _checked_total(self.step, yielded.items)
            return False
        if kind is At:
            value = yielded.value
            cursor = self._own_cursor(yielded)
        else:
            value = yielded
            cursor = self.cursor + 1 if type(self.cursor) is int else self._first_count()
        if value is not NOTHING:
            if self._keep is not None:
                kept = self._keep(value, self._what)
                self.items.append(Item(self.step.name, self.position, kept))
                self.size += len(kept)
            if self._has_effect:
                self.values.append(value)
            self.position += 1
        self.cursor = cursor  # after encoding: a cursor must not pass a value that cannot be kept
        self.moved += 1
        return (
            self.moved >= self.count
            or self.size >= MAX_BYTES
            or (self.until is not None and monotonic() - self.began >= self.until)
            or self.caller.lost
            or self.stopping()
        )

    @property
    def may_go_on(self) -> bool:
        """False if the stream has said that it is over, or yielded inside a transaction. Then it is closed."""
        return not self.said_end and not self.transactions

    def transaction_opened(self) -> None:
        """Count a transaction of the stream's own code. The next item ends the pull, which is refused then."""
        if get_ident() == self._thread:  # a thread that the body started has connections of its own
            self.transactions += 1
            self.count = 0

    def transaction_closed(self) -> None:
        """Count a transaction that has ended."""
        if get_ident() == self._thread:
            self.transactions -= 1
            if not self.transactions:
                self.count, _ = _commit_limits(self.step.options.commit_every)

    def _first_count(self) -> int:
        if self.cursor is not None:
            raise BodyError(f"step {self.step.name!r} has its own cursor: yield At(cursor, value) every time")
        return 1

    def _own_cursor(self, yielded: At[Any]) -> Any:
        if yielded.cursor is None:
            self.said_end, self.count = True, 0
            return self.cursor
        _check_cursor_moved(self.step, self.cursor, yielded.cursor)
        self.own_cursor = True
        return yielded.cursor

    def _what(self) -> str:
        return f"item {self.position} of step {self.step.name!r}"

    def pulled(self, *, exhausted: bool = False, error: BaseException | None = None) -> Pulled:
        """Return what was collected."""
        marks = exhausted, error, self.own_cursor, self.total
        return Pulled(self.items, self.values, self.cursor, self.position, *marks)


class TimedCollector(Collector):
    """Collect from a stream with a time in `commit_every`. A part can be taken while the body computes its next item.

    The limits of items and bytes are for the whole call, with the parts that were taken. So the body is never far ahead
    of the commits.
    """

    def __init__(self, step: AnyStep, call: PullStream, caller: StopSignals) -> None:
        super().__init__(step, call, caller)
        self.call = call
        self.taken = 0  # how often the cursor had moved when the last part was taken
        self.is_over = False  # the rest is the result of the call
        self._lock = Lock()  # for all that a part consists of

    def take(self, yielded: Any) -> bool:
        """Add one yielded value. Return True if it is time to commit."""
        with self._lock:
            self.is_over = super().take(yielded)
            return self.is_over

    def pulled(self, *, exhausted: bool = False, error: BaseException | None = None) -> Pulled:
        """Return what was collected and not taken."""
        with self._lock:
            self.is_over = True
            rest = super().pulled(exhausted=exhausted, error=error)
            self.items, self.values = [], []  # the document of this stream may stay for long
            return rest

    def take_part(self, hand_over: Callable[[Pulled], object]) -> bool:
        """Hand over what was collected, if it is time. Return False if it is not, or if the stream is just yielding.

        What raises in `hand_over` was not taken.
        """
        if not self._is_due() or not self._lock.acquire(blocking=False):
            return False
        try:
            if self.is_over or not self._is_due():
                return False
            hand_over(super().pulled())
            self.items, self.values = [], []
            self.taken, self.began = self.moved, monotonic()
            return True
        finally:
            self._lock.release()

    def _is_due(self) -> bool:
        """Return True if there is something to commit, and its time has come. A transaction is not disturbed."""
        if self.moved == self.taken or self.transactions:
            return False
        return monotonic() - self.began >= (self.until or 0.0) or self.stopping()


def commits_by_time(step: AnyStep) -> bool:
    """Return True if what a stream yields is committed after some time, also if no further item comes."""
    return isinstance(step.options.commit_every, (timedelta, tuple))


def _commit_limits(every: CommitEvery | None) -> tuple[int, float | None]:
    """Return after how many items, and after how many seconds, a stream is committed."""
    match every:
        case None:
            return MAX_ITEMS, DEFAULT_COMMIT_SECONDS
        case int():
            return every, None
        case timedelta():
            return 10 * MAX_ITEMS, every.total_seconds()
        case count, span:
            return count, span.total_seconds()


def _checked_total(step: AnyStep, items: Any) -> int:
    if type(items) is not int or not 0 <= items <= MAX_TOTAL:
        raise BodyError(f"step {step.name!r} yielded total({items!r}): a total is a number of items, from 0")
    return items


def _check_cursor_moved(step: AnyStep, before: Any, after: Any) -> None:
    if not isinstance(after, int):
        checked_json(after, f"the cursor of step {step.name!r}")
    if moved_on(before, after):
        return
    if after == before:
        raise CursorMovedBack(f"step {step.name!r} yielded At({after!r}) after {before!r}: a cursor has to move")
    raise CursorMovedBack(
        f"step {step.name!r} moved its cursor back from {before!r} to {after!r}; items in between would be done "
        "twice. Cursors only grow; to go back on purpose, rewind the document"
    )
