"""What cannot be said for certain any more, once certain things happened in a schedule."""

from __future__ import annotations

from msgspec import Struct


class Doubts(Struct):
    """What is not as it seems any more, so that less can be said about it."""

    hands: bool = False
    """Whether a worker may hold, by the books, what it never heard of."""
    ahead: set[tuple[int, int]] = set()
    """The documents, with their fences, that are further than their holders know: a second delivery moved them."""
    clocks: bool = False
    """Whether the clock of any process was ever wrong."""
