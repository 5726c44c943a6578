"""Which items of a step are done, under way, set aside or still to do, when windows finish out of order.

The cursor of a step over items is a count while all before it is done. As soon as something is not, it becomes
`{"next": 128, "done": [[192, 256]], "aside": [[130, 1]]}`: everything below `next` is done, so are the ranges, and
each position set aside stands beside the number of its tries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

Span = tuple[int, int]


class _Cursor(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    next: int = 0
    done: list[Span] = []
    aside: list[Span] = []


class Windows:
    """Walks the items of one step for one document, from any cursor."""

    def __init__(self, total: int, *, cursor: Any = None) -> None:
        at = _Cursor(next=cursor or 0) if isinstance(cursor, (int, type(None))) else msgspec.convert(cursor, _Cursor)
        self.total = total
        self.aside: dict[int, int] = dict(at.aside)
        self._done: list[Span] = merged([(0, at.next), *at.done, *((place, place + 1) for place in self.aside)])
        self._given: list[Span] = list(self._done)

    def take(self, size: int) -> Span | None:
        """Gives the next span of at most `size` items that nobody has, or None when all are given out."""
        start = self._given[0][1] if self._given and self._given[0][0] == 0 else 0
        if start >= self.total:
            return None
        stop = min(start + size, self.total, self._given_after(start))
        self._given = merged([*self._given, (start, stop)])
        return start, stop

    def _given_after(self, start: int) -> int:
        return min((first for first, _ in self._given if first > start), default=self.total)

    def finish(self, span: Span) -> None:
        """The items of this span are done."""
        self._done = merged([*self._done, span])

    def set_aside(self, position: int, *, tries: int) -> None:
        """The item at this position could not be done, after so many tries."""
        self.aside[position] = tries
        self.finish((position, position + 1))

    def mend(self, position: int) -> None:
        """The item at this position was set aside, and is done now."""
        self.aside.pop(position, None)

    @property
    def finished(self) -> bool:
        """Whether every item was done or set aside."""
        return not self.total or self._done == [(0, self.total)]

    def cursor(self) -> Any:
        """Gives the position as JSON."""
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


def merged(spans: list[Span]) -> list[Span]:
    """Joins spans that touch or overlap; drops empty ones."""
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
