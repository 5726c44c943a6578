"""Whether effects are written with the checkpoints that say so: each once, none without, and none left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.testing.simulation.books import Books, Seen, Wrote
from holdfast.testing.simulation.places import newly_done
from holdfast.testing.simulation.shapes import UNKEPT

Place = tuple[Any, ...]
"""Key, generation, step and place in it."""


class Effects:
    """Remembers which effects were written."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._written: set[Place] = set()

    def look(self, verb: str, moved: Iterable[tuple[Seen, Seen]], wrote: Sequence[Wrote]) -> Iterator[str]:
        """Says what is wrong with what a transaction wrote, if anything is, when it moved these documents."""
        due = {
            (now.key, now.generation, step, place): now for was, now in moved for step, place in newly_done(was, now)
        }
        for row in wrote:
            yield from self._wrong_with(row, verb, due)
            self._written.add(row[:4])
        if lacking := due.keys() - {row[:4] for row in wrote}:
            yield f"the checkpoint says that {sorted(lacking)} was done, and its effect was not written"
        for (_, generation, step, place), now in due.items():
            if not self._is_kept(now, generation, step, place):
                yield f"the checkpoint says that {step} {place} of {now.key} was done, and nothing of it is kept"

    def _wrong_with(self, row: Wrote, verb: str, due: dict[Place, Seen]) -> Iterator[str]:
        place = row[:4]
        if place in self._written:
            yield f"the effect of {place} was written twice, the second time by {verb or 'nobody'}"
        elif place not in due:
            yield f"the effect of {place} was written by {verb or 'nobody'}, and no checkpoint says so"
        elif row.value != f"{row.key} {due[place].version}":
            yield f"the effect of {place} is {row.value!r}, and the document's version {due[place].version}"

    def _is_kept(self, now: Seen, generation: int, step: str, place: int) -> bool:
        if step in UNKEPT:
            return True
        kept = self._books.kept(now.id, generation, step)
        return place in kept or -1 in kept
