"""Check that effects are written with their checkpoints: each once, none without one, none left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.simulation.cursor_reader import newly_done
from tests.simulation.observed_state import EffectRow, ObservedDocument, ObservedState
from tests.simulation.pipelines import EFFECT_ONLY

Place = tuple[Any, ...]
"""Key, generation, step and place in it."""


class EffectChecks:
    """Remembers which effects were written."""

    def __init__(self, observed: ObservedState) -> None:
        self._observed = observed
        self._written: set[Place] = set()

    def check(
        self, verb: str, moved: Iterable[tuple[ObservedDocument, ObservedDocument]], wrote: Sequence[EffectRow]
    ) -> Iterator[str]:
        """Yield what is wrong with the effects of a transaction that moved these documents."""
        due = {
            (now.key, now.generation, step, place): now for was, now in moved for step, place in newly_done(was, now)
        }
        for row in wrote:
            yield from self._row_violations(row, verb, due)
            self._written.add(row[:4])
        if lacking := due.keys() - {row[:4] for row in wrote}:
            yield f"the checkpoint says that {sorted(lacking)} was done, and its effect was not written"
        for (_, generation, step, place), now in due.items():
            if not self._is_kept(now, generation, step, place):
                yield f"the checkpoint says that {step} {place} of {now.key} was done, and nothing of it is kept"

    def _row_violations(self, row: EffectRow, verb: str, due: dict[Place, ObservedDocument]) -> Iterator[str]:
        place = row[:4]
        if place in self._written:
            yield f"the effect of {place} was written twice, the second time by {verb or 'no call'}"
        elif place not in due:
            yield f"the effect of {place} was written by {verb or 'no call'}, and no checkpoint says so"
        elif row.value != f"{row.key} {due[place].version}":
            yield f"the effect of {place} is {row.value!r}, and the document's version {due[place].version}"

    def _is_kept(self, now: ObservedDocument, generation: int, step: str, place: int) -> bool:
        if step in EFFECT_ONLY:
            return True
        kept = self._observed.kept(now.id, generation, step)
        return place in kept or -1 in kept
