"""Try all dead letters of a pipeline again."""

from __future__ import annotations

from holdfast.stores.protocol import DocumentFilter, Store


def redrive_dead_letters(store: Store, pipeline: str, *, batch: str | None = None, who: str, reason: str) -> int:
    """Try the dead letters of a pipeline again, or those of one batch, except accepted ones. Return how many.

    Dead letters at steps that the pipeline no longer has are left as they are.

    Args:
        store: The store.
        pipeline: The name of the pipeline.
        batch: Only documents of this batch.
        who: The name for the journal.
        reason: Why, for people.
    """
    which: DocumentFilter = {"batch": batch, "state": "dead", "accepted": False}
    redriven = after = 0
    while ids := store.select(pipeline, after=after, **which):
        after = ids[-1]
        redriven += len(store.redrive(ids, who=who, reason=reason))
    return redriven
