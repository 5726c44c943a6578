"""Withdraw documents: cancel them, and remove the rows that their effects wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.document import Document, NoOutput
from holdfast.core.errors import DefinitionError, StoreError, UndoFailed
from holdfast.core.model import DocumentStatus, Plan, WrittenRows
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.effect_rows import rows_before_recording, without_output
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Store


def withdraw(
    pipeline: Pipeline, store: Store, document_ids: Sequence[int], *, who: str, reason: str, code: str = ""
) -> list[int]:
    """Cancel documents, whatever their state, and remove the rows that their effects wrote.

    The decision and the undo of every step that wrote rows are one transaction. A worker that holds such a document
    can no longer write. Each undo runs once, however often documents are withdrawn. If rows of a document cannot be
    removed, that document stays as it is, and the others are withdrawn.

    Args:
        pipeline: The pipeline. Its steps have the undo functions.
        store: The store that keeps the documents.
        document_ids: The documents, by id.
        who: Who decided.
        reason: Why.
        code: The reason for programs. Empty for the decision of a person.

    Returns:
        The ids of the documents that were withdrawn. Left out are documents that do not exist, belong to another
        pipeline or to a closed batch, or were cancelled before and have no rows.

    Raises:
        DefinitionError: A step has an effect and no undo, so its rows cannot be removed. Nothing was changed.
        UndoFailed: The undo of some documents failed, or they have rows of a step that the pipeline does not have any
            more. The other documents were withdrawn.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        StoreError: The store cannot be reached or used.

    Example:
        ids = [document.id for document in store.documents("papers", state="done")]
        holdfast.withdraw(papers, store, ids, who="Ada", reason="the publisher took them back")
    """
    refuse_if_rows_would_stay(pipeline)
    withdrawal = Withdrawal(pipeline, store, who=who, reason=reason, code=code)
    withdrawn: list[int] = []
    for start in range(0, len(document_ids), MAX_PER_TRANSACTION):
        withdrawn += withdrawal.withdraw(document_ids[start : start + MAX_PER_TRANSACTION])
    if withdrawal.failures:
        raise UndoFailed("\n".join(withdrawal.failures))
    return sorted(withdrawn)


def refuse_if_rows_would_stay(pipeline: Pipeline) -> None:
    """Raise DefinitionError if a step of the pipeline has an effect and no undo."""
    steps = [step.name for step in pipeline.steps if step.effect_body is not None and not step.can_undo]
    if steps:
        raise DefinitionError(
            f"pipeline {pipeline.name!r}: the effect of {' and of '.join(steps)} has no undo, so its rows cannot be "
            f"removed; write one with @{steps[0]}.undo, or write the rows with @{steps[0]}.rows"
        )


class Withdrawal:
    """One decision to withdraw documents. `failures` has a sentence for each document whose undo failed."""

    def __init__(self, pipeline: Pipeline, store: Store, *, who: str, reason: str, code: str = "") -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan: Plan | None = None
        self._decision = {"who": who, "reason": reason, "code": code}
        self.failures: list[str] = []

    def withdraw(self, document_ids: Sequence[int]) -> list[int]:
        """Withdraw documents in one transaction. If an undo fails, withdraw each by itself."""
        if self._plan is None:
            self._plan = self._store.declare(self._pipeline.shape())
        try:
            return self._store.withdraw(self._plan, document_ids, undo=self._undo, **self._decision)
        except UndoFailed as failure:
            if len(document_ids) == 1:
                self.failures.append(str(failure))
                return []
        return [number for document_id in document_ids for number in self.withdraw([document_id])]

    def _undo(self, tx: Tx, written: Sequence[WrittenRows]) -> None:
        """Remove the rows of documents. Those of later steps go first, because they may refer to the others."""
        for rows in written:
            status = rows.document
            effects = rows.effects
            if effects is None:
                effects = rows_before_recording(self._pipeline, status.checkpoint, rows.reuses)
            self._refuse_rows_without_undo(status, effects)
            for step in reversed(self._pipeline.steps):
                if step.name in effects:
                    self._undo_step(tx, step, status, effects[step.name])

    def _refuse_rows_without_undo(self, status: DocumentStatus, effects: Mapping[str, int]) -> None:
        """Raise UndoFailed if a step wrote rows which the pipeline cannot remove any more."""
        for step in effects:
            if step in self._pipeline and self._pipeline[step].can_undo:
                continue
            why = "that step has no undo" if step in self._pipeline else "the pipeline has no such step any more"
            raise UndoFailed(
                f"{status.key} of {status.batch}: nothing can remove the rows that step {step!r} wrote, because {why}. "
                "So the document was not changed. Add the step with an undo, or cancel the document without one and "
                "remove the rows yourself"
            )

    def _undo_step(self, tx: Tx, step: AnyStep, status: DocumentStatus, generation: int) -> None:
        try:
            step.remove_rows(tx, without_output(_document(status), step, generation))
        except StoreError:
            raise
        except Exception as error:  # user code: an undo may raise anything
            raise UndoFailed(
                f"{status.key} of {status.batch}: the undo of step {step.name!r} failed, so the document was not "
                f"changed: {type(error).__name__}: {error}"
            ) from error


def _document(status: DocumentStatus) -> Document:
    return Document(
        pipeline=status.pipeline,
        batch=status.batch,
        key=status.key,
        payload=status.payload,
        fingerprint=status.fingerprint,
        generation=status.checkpoint.generation,
        id=status.id,
        reader=NoOutput(),
    )
