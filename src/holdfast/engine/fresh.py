"""What was kept a moment ago: the next step asks for just that, so it need not be read back.

A worker that holds a document is the only one that adds to what its steps keep. What it committed itself, from the
first item on, it therefore knows; what came before, or has no room, is read from the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.codec import Kept
from holdfast.core.model import WHOLE, Item

ROOM = 32 * 1024 * 1024
"""How many characters a worker remembers, of all documents that it holds."""
PIECE = 256 * 1024
"""How many of them one step of one document may have."""


class Room:
    """How much may still be remembered. Only the thread that has the baton takes of it, or gives back."""

    __slots__ = ("left",)

    def __init__(self, size: int = ROOM) -> None:
        self.left = size


class Fresh:
    """What the steps of one document kept since it was taken in hand."""

    __slots__ = ("_room", "_steps", "_taken")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._steps: dict[str, _Kept | None] = {}  # None: only the store knows
        self._taken = 0

    def learn(self, items: Sequence[Item]) -> None:
        """Remembers what was committed, if everything before it is remembered and there is room."""
        step = items[0].step
        known = self._steps.setdefault(step, _Kept())
        if known is None:
            return
        size = sum([len(item.value) for item in items])
        if known.size + size <= PIECE and size <= self._room.left and known.take(items):
            known.size += size
            self._room.left -= size
            self._taken += size
        else:
            self._steps[step] = None

    def forget(self) -> None:
        """Gives the room back. What was remembered is not believed any more."""
        self._room.left += self._taken
        self._taken = 0
        self._steps = {}

    def extent(self, step: str) -> int | None:
        """Answers how many items a step kept; None when only the store knows."""
        known = self._steps.get(step)
        return None if known is None else len(known.items)

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]] | None:
        """Gives the items from start to stop; None when only the store knows."""
        known = self._steps.get(step)
        if known is None:
            return None
        if start == WHOLE:
            return known.whole
        return list(enumerate(known.items[start:stop], start))


class _Kept:
    """All that one step kept: items from the first on, or one value."""

    __slots__ = ("items", "size", "whole")

    def __init__(self) -> None:
        self.items: list[Kept] = []
        self.whole: list[tuple[int, Kept]] = []
        self.size = 0

    def take(self, items: Sequence[Item]) -> bool:
        """Takes more. Answers False when something before it is missing."""
        first = items[0].position
        if first == WHOLE:
            self.whole = [(WHOLE, items[0].value)]
            return True
        if [item.position for item in items] != list(range(len(self.items), len(self.items) + len(items))):
            return False
        self.items += [item.value for item in items]
        return True
