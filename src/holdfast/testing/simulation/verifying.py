"""Whether work that left the database is asked about, redone when it is gone, and not redone for ever."""

from __future__ import annotations

from collections.abc import Container

from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.places import rank

VERIFIED = "pages"
"""The step whose work is asked about."""


class Verifying:
    """Remembers who took which document up where, what it heard of the work behind it, and who was set back."""

    def __init__(self) -> None:
        self._taken_up: dict[int, Seen] = {}
        self._heard: dict[tuple[str, int], bool] = {}
        self._set_back: dict[int, Seen] = {}

    def taken_up(self, seen: Seen) -> None:
        """Learns that a document was claimed."""
        self._taken_up[seen.id] = seen

    def heard(self, held: tuple[str, int], *, is_there: bool) -> None:
        """Learns what whoever holds a document under a fence was told of its work."""
        self._heard[held] = is_there

    def begins_anew(self, seen: Seen) -> None:
        """Learns that a person decided, or that the content is another: whatever was gone counts no more."""
        self._set_back.pop(seen.id, None)

    def moved(self, was: Seen) -> str:
        """Says what is wrong with a move: whoever takes a document up in the middle asks first, and hears yes."""
        begun = self._taken_up.get(was.id)
        if begun is None or (begun.fence, begun.generation) != (was.fence, was.generation):
            return ""
        if rank(begun.step) <= rank(VERIFIED) or self._heard.get((was.key, was.fence)):
            return ""
        return f"{was.key} went on from {was.step}, and nobody knows whether its {VERIFIED} are there"

    def set_back(self, was: Seen, known: Container[str | None]) -> str:
        """Says what is wrong with a worker's rewind: if the last one led no further, a person has to look.

        A worker of another version, to which the step is not known from which it was set back, takes it for removed.
        """
        before, self._set_back[was.id] = self._set_back.get(was.id), was
        if before is None or before.step not in known or rank(was.step) > rank(before.step):
            return ""
        if was.step == before.step and was.cursor != before.cursor:
            return ""
        return f"{was.key} goes round: it was set back from {before.step}, and now again from {was.step}"
