"""Windows of a step over items: which items are done, running, set aside or still to do.

Windows may finish out of order. The cursor of the step is a number while all items before it are done. Otherwise it is
`{"next": 128, "done": [[192, 256]], "aside": [[130, 1]]}`: all items below `next` are done, and so are the ranges in
`done`; `aside` has the position and the number of attempts of each item that was set aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import msgspec

Span = tuple[int, int]


class WindowsCursor(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The cursor of a step over items while its windows finish out of order."""

    next: int = 0
    done: list[Span] = []
    aside: list[Span] = []

    def is_valid(self, total: float = inf) -> bool:
        """Return True if it can be a cursor over this many items."""
        spans = [(0, self.next), *self.done, *((place, place + 1) for place, _ in self.aside)]
        return all(0 <= start <= stop <= total for start, stop in spans) and all(tries > 0 for _, tries in self.aside)


def windows_cursor(cursor: Any) -> WindowsCursor:
    """Return a cursor over items, which may be a number. Raise ValidationError if it cannot be one."""
    return msgspec.convert({"next": cursor or 0} if cursor is None or type(cursor) is int else cursor, WindowsCursor)


class Windows:
    """The progress of one document in a step over items, from any cursor."""

    def __init__(self, total: int, *, cursor: Any = None) -> None:
        at = windows_cursor(cursor)
        self.total = total
        self.aside: dict[int, int] = dict(at.aside)
        self._done: list[Span] = merged([(0, at.next), *at.done, *((place, place + 1) for place in self.aside)])
        self._given: list[Span] = list(self._done)

    def take(self, size: int) -> Span | None:
        """Return the next span of at most `size` items, or None if all were handed out."""
        start = self._given[0][1] if self._given and self._given[0][0] == 0 else 0
        if start >= self.total:
            return None
        stop = min(start + size, self.total, self._given_after(start))
        self._given = merged([*self._given, (start, stop)])
        return start, stop

    def _given_after(self, start: int) -> int:
        return min((first for first, _ in self._given if first > start), default=self.total)

    def finish(self, span: Span) -> None:
        """Record that the items of a span are done."""
        self._done = merged([*self._done, span])

    def set_aside(self, position: int, *, tries: int) -> None:
        """Record that the item at a position failed after this many attempts."""
        self.aside[position] = tries
        self.finish((position, position + 1))

    def mend(self, position: int) -> None:
        """Record that an item that was set aside is done now."""
        self.aside.pop(position, None)

    def reopen(self, position: int) -> None:
        """Record that an item that was set aside has to be done again."""
        self.aside.pop(position, None)
        halves = [half for start, stop in self._done for half in _without(position, start, stop)]
        self._done = merged(halves)
        self._given = list(self._done)

    @property
    def finished(self) -> bool:
        """True if every item is done or set aside."""
        return not self.total or self._done == [(0, self.total)]

    @property
    def done_places(self) -> int:
        """The number of items that are done, without those that were set aside."""
        return sum(stop - start for start, stop in self._done) - len(self.aside)

    def covers(self, other: Windows) -> bool:
        """Return True if every item that is done or set aside in the other is so here too."""
        return merged([*self._done, *other._done]) == self._done

    def cursor(self) -> Any:
        """Return the cursor as JSON."""
        lowest = self._done[0][1] if self._done and self._done[0][0] == 0 else 0
        rest = [span for span in self._done if span[0] > 0]
        if not rest and not self.aside:
            return lowest
        cursor: dict[str, Any] = {"next": lowest}
        if rest:
            cursor["done"] = [list(span) for span in rest]
        if self.aside:
            cursor["aside"] = [list(one) for one in sorted(self.aside.items())]
        return cursor


def _without(position: int, start: int, stop: int) -> list[Span]:
    """Return the parts of a span before and after a position."""
    return [(start, position), (position + 1, stop)] if start <= position < stop else [(start, stop)]


def merged(spans: list[Span]) -> list[Span]:
    """Join spans that touch or overlap. Drop empty ones."""
    return list(_merge(sorted(span for span in spans if span[0] < span[1])))


def _merge(spans: list[Span]) -> Iterator[Span]:
    current: Span | None = None
    for start, stop in spans:
        if current and start <= current[1]:
            current = (current[0], max(current[1], stop))
            continue
        if current:
            yield current
        current = (start, stop)
    if current:
        yield current
