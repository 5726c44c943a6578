"""Check that rows of a superseded generation go away: once, with the first new rows or with the end of the step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tests.simulation.observed_state import EffectRow, ObservedDocument, ObservedState, UndoneRow

KeyAndStep = tuple[str, str]

UNDO_VERBS = ("commit", "exchange", "withdraw")
"""The verbs whose transaction may undo something."""


class UndoChecks:
    """Remembers which generation wrote the rows of each document and step."""

    def __init__(self, observed: ObservedState) -> None:
        self._observed = observed
        self._written: dict[KeyAndStep, int] = {}

    def check(
        self,
        verb: str,
        moved: Iterable[tuple[ObservedDocument, ObservedDocument]],
        *,
        wrote: Sequence[EffectRow],
        undone: Sequence[UndoneRow],
    ) -> Iterator[str]:
        """Yield what is wrong with a transaction that moved these documents, and wrote and undid these rows."""
        for row in undone:
            yield from self._undo_violations(verb, row)
            self._written.pop((row.key, row.step), None)
        for row in wrote:
            before = self._written.setdefault((row.key, row.step), row.generation)
            if before != row.generation:
                yield f"{row.step} of {row.key} has rows of generation {before}, and wrote some of {row.generation}"
        for key, step in {(row.key, row.step) for row in (*wrote, *undone)}:
            yield from self._table_violations(key, step)
        for was, now in moved:
            if was.step is not None and was.step != now.step:
                yield from self._end_violations(was)

    def _undo_violations(self, verb: str, row: UndoneRow) -> Iterator[str]:
        if verb not in UNDO_VERBS:
            yield f"{verb or 'no call'} undid {row.step} of {row.key}"
        written = self._written.get((row.key, row.step))
        if written != row.generation:
            yield f"generation {row.generation} of {row.step} of {row.key} was undone, and its rows are of {written}"

    def _table_violations(self, key: str, step: str) -> Iterator[str]:
        written, there = self._written.get((key, step)), self._observed.generations(key, step)
        if there != ([] if written is None else [written]):
            yield f"{step} of {key} has rows of generations {there}, where those of {written} belong"

    def _end_violations(self, was: ObservedDocument) -> Iterator[str]:
        assert was.step is not None
        written = self._written.get((was.key, was.step), was.generation)
        if written != was.generation:
            yield f"generation {was.generation} of {was.key} is past {was.step}, and rows of {written} are still there"

    def check_withdrawn(self, document: ObservedDocument, steps: Collection[str]) -> Iterator[str]:
        """Yield which rows a document still has that was withdrawn under a plan with these steps."""
        for step in steps:
            if (document.key, step) in self._written:
                yield f"{document.key} was withdrawn, and rows of {step} are still there"
