"""Which generation of a document wrote the rows that are there, step by step: it decides when an undo runs.

A document records, for each step, the generation whose effect wrote its rows. The first effect of a later generation
finds an earlier number there. So it runs the undo first, in its own transaction, which also writes the new number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from msgspec.structs import replace

from holdfast.core.document import Document, NoOutput
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.moves import Effect, Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep

Changes = dict[str, int | None]
"""What a move changes: by step, the generation whose rows are there afterwards; None if the step has no rows."""


class EffectRows:
    """The rows of one claimed document.

    `by_step` has the generation that wrote the rows of each step. `left` has the steps whose earlier rows stay, because
    nothing can remove them, until somebody takes it.
    """

    __slots__ = ("_document", "_unsaved", "by_step", "left")

    def __init__(self, pipeline: Pipeline, claim: Claim, document: Document) -> None:
        self._document = document
        self._unsaved: dict[str, int] = (
            rows_before_recording(pipeline, claim.checkpoint, claim.reuses) if claim.effects is None else {}
        )
        self.by_step = self._unsaved if claim.effects is None else claim.effects
        generation = claim.checkpoint.generation
        self.left: tuple[str, ...] = (
            tuple(step for step, made in self.by_step.items() if made < generation and step not in pipeline)
            if generation and self.by_step
            else ()
        )

    def replace_earlier(
        self, step: AnyStep, effect: Effect | None, *, ends: bool
    ) -> tuple[Effect | None, Changes | None]:
        """Return what a move writes: its effect, after the undo of an earlier generation; and what it changes here.

        Args:
            step: The step.
            effect: The effect of the move, if it has one.
            ends: Whether the move ends the step. Then rows of an earlier generation go, even if there are no new ones.
        """
        written, generation = self.by_step.get(step.name), self._document.generation
        if written == generation or (effect is None and (written is None or not ends)):
            return effect, None
        if written is None:
            return effect, self._changes(step.name, generation)
        after: Changes | None = self._changes(step.name, None if effect is None else generation)
        if not step.can_undo:
            self.left = (*self.left, step.name)
            after = None if effect is None else after
            if not step.tables:
                return effect, after
        return partial(_undo, step, self._document, written, effect), after

    def _changes(self, step: str, generation: int | None) -> Changes:
        return {**self._unsaved, step: generation} if self._unsaved else _only(step, generation)

    def commit(self, changes: Changes) -> None:
        """Remember what a committed move changed."""
        now = {**self.by_step, **changes}
        self.by_step = {step: made for step, made in now.items() if made is not None}
        self._unsaved = {}


@lru_cache(4096)
def _only(step: str, generation: int | None) -> Changes:
    """Return a change of one step: always the same object, so that stores see which documents go the same way."""
    return {step: generation}


def rows_before_recording(pipeline: Pipeline, at: Checkpoint, reuses: Mapping[str, int] | None) -> dict[str, int]:
    """Return which rows a document may have that was submitted to a holdfast which did not record it.

    All steps that the document may have passed count as written. An undo that finds nothing to remove is better than
    rows that stay.
    """
    done = pipeline.steps if at.step is None else pipeline.behind(at.step)
    rows = {step.name: (reuses or {}).get(step.name, at.generation) for step in done}
    if at.cursor is not None and at.step:
        rows[at.step] = at.generation
    if at.generation:
        rows = {step.name: at.generation - 1 for step in pipeline.steps} | rows
    return {step: made for step, made in rows.items() if pipeline[step].effect_body or pipeline[step].undo_body}


def without_output(document: Document, step: AnyStep, generation: int) -> Document:
    """Return a document as an undo gets it."""
    return replace(document, step=step.name, generation=generation, reader=NoOutput())


def _undo(step: AnyStep, document: Document, generation: int, effect: Effect | None, tx: Tx) -> None:
    step.remove_rows(tx, without_output(document, step, generation))
    if effect is not None:
        effect(tx)
