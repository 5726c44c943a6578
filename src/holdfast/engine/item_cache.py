"""Item cache: what a worker has just committed, because the next step reads exactly that.

Only the worker that holds a document adds to what its steps keep. So it knows everything that it committed itself from
the first item on. It reads from the store what was committed before, what does not fit, and all items of a step that
was begun before this worker claimed the document: windows end in any order, so later ones may be kept already.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.codec import Kept
from holdfast.core.model import WHOLE, Item

MAX_WORKER_SIZE = 32 * 1024 * 1024
"""Maximum number of characters in the caches of all documents of a worker."""
MAX_DOCUMENT_SIZE = 256 * 1024
"""Maximum number of characters in the cache of one document."""


class CacheBudget:
    """The number of characters that may still be cached. Used under the scheduler lock."""

    __slots__ = ("left",)

    def __init__(self, size: int = MAX_WORKER_SIZE) -> None:
        self.left = size


class ItemCache:
    """The items that the steps of one document kept since this worker claimed it."""

    __slots__ = ("_budget", "_size", "_steps")

    def __init__(self, budget: CacheBudget, *, begun: str | None = None) -> None:
        self._budget = budget
        self._steps: dict[str, list[Kept] | Kept | None] = {}  # its items, its one value, or None: not cached
        if begun is not None:
            self._steps[begun] = None
        self._size = 0

    def add(self, items: Sequence[Item]) -> None:
        """Add items that were committed, if all items before them are cached and the budget allows it."""
        first = items[0]
        if first.position == WHOLE:
            self._steps[first.step] = first.value if self._reserve(len(first.value)) else None
            return
        known = self._steps.setdefault(first.step, [])
        if not isinstance(known, list):
            return
        expected = range(len(known), len(known) + len(items))
        size = sum([len(item.value) for item in items])
        if [item.position for item in items] == list(expected) and self._reserve(size):
            known += [item.value for item in items]
        else:
            self._steps[first.step] = None

    def release(self) -> None:
        """Return the size of this cache to the budget."""
        self._budget.left += self._size
        self._size = 0

    def next_position(self, step: str) -> int | None:
        """Return how many items a step kept, or None if they are not cached."""
        known = self._steps.get(step)
        return None if known is None else len(known) if isinstance(known, list) else 0

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]] | None:
        """Return the items from start to stop, or None if they are not cached."""
        known = self._steps.get(step)
        if known is None:
            return None
        if isinstance(known, list):
            return [] if start == WHOLE else list(enumerate(known[start:stop], start))
        return [(WHOLE, known)] if start == WHOLE else []

    def _reserve(self, size: int) -> bool:
        if size > self._budget.left or self._size + size > MAX_DOCUMENT_SIZE:
            return False
        self._budget.left -= size
        self._size += size
        return True
