"""Which documents are withdrawn, and what is recorded about their rows then: the same for every store."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model import DocumentStatus, Plan, WrittenRows
from holdfast.stores.json_fields import NumbersBySteps, by_name


def written_rows(
    plan: Plan, documents: Sequence[DocumentStatus], numbers: Sequence[Sequence[NumbersBySteps]]
) -> list[WrittenRows]:
    """Return documents with the generations that wrote their rows, and those that they reuse, by names of steps."""
    every, names = plan.all_names, plan.names
    return [
        WrittenRows(document, by_name(effects, every), by_name(reuses, names))
        for document, (effects, reuses) in zip(documents, numbers, strict=True)
    ]


def is_withdrawable(plan: Plan, written: WrittenRows) -> bool:
    """Return True if a withdrawal changes a document. One that was cancelled before may still have rows."""
    has_rows = written.effects is None or any(step in plan.step_ids for step in written.effects)
    return has_rows or written.document.state != "cancelled"


def rows_that_stay(plan: Plan, effects: NumbersBySteps) -> dict[int, int]:
    """Return what is still recorded after a withdrawal: the rows of steps that the plan does not have."""
    known = plan.step_ids.values()
    return {step_id: generation for step_id, generation in (effects or {}).items() if step_id not in known}
