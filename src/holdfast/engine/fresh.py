"""What was kept a moment ago: the next step asks for just that, so it need not be read back.

A worker that holds a document is the only one that adds to what its steps keep. What it committed itself, from the
first item on, it therefore knows; what came before, or has no room, is read from the store. So is all of a step that
was begun before the document was taken in hand: its windows end in any order, and later ones may be kept already.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.codec import Kept
from holdfast.core.model import WHOLE, Item

ROOM = 32 * 1024 * 1024
"""How many characters a worker remembers, of all documents that it holds."""
PIECE = 256 * 1024
"""How many of them one document may have."""


class Room:
    """How much may still be remembered. Only the thread that has the baton takes of it, or gives back."""

    __slots__ = ("left",)

    def __init__(self, size: int = ROOM) -> None:
        self.left = size


class Fresh:
    """What the steps of one document kept since it was taken in hand."""

    __slots__ = ("_room", "_steps", "_taken")

    def __init__(self, room: Room, *, begun: str | None = None) -> None:
        self._room = room
        self._steps: dict[str, list[Kept] | Kept | None] = {}  # items from the first on, or one value
        if begun is not None:
            self._steps[begun] = None  # only the store knows
        self._taken = 0

    def learn(self, items: Sequence[Item]) -> None:
        """Remembers what was committed, if everything before it is remembered and there is room."""
        first = items[0]
        if first.position == WHOLE:
            self._steps[first.step] = first.value if self._takes(len(first.value)) else None
            return
        known = self._steps.setdefault(first.step, [])
        if not isinstance(known, list):
            return  # only the store knows
        expected = range(len(known), len(known) + len(items))
        size = sum([len(item.value) for item in items])
        if [item.position for item in items] == list(expected) and self._takes(size):
            known += [item.value for item in items]
        else:
            self._steps[first.step] = None

    def give_back(self) -> None:
        """Gives the room back."""
        self._room.left += self._taken
        self._taken = 0

    def extent(self, step: str) -> int | None:
        """Answers how many items a step kept; None when only the store knows."""
        known = self._steps.get(step)
        return None if known is None else len(known) if isinstance(known, list) else 0

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]] | None:
        """Gives the items from start to stop; None when only the store knows."""
        known = self._steps.get(step)
        if known is None:
            return None
        if isinstance(known, list):
            return [] if start == WHOLE else list(enumerate(known[start:stop], start))
        return [(WHOLE, known)] if start == WHOLE else []

    def _takes(self, size: int) -> bool:
        if size > self._room.left or self._taken + size > PIECE:
            return False
        self._room.left -= size
        self._taken += size
        return True
