"""All that can be read from a store, in a form that can be compared with another store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from holdfast.core.batches import Cleaned
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Claim, DocumentStatus, JournalEntry, Plan, WorkerRecord, WorkerTotals
from holdfast.core.moves import Refused
from holdfast.core.orphans import Orphan
from holdfast.core.plan import KnownPlan
from holdfast.core.wait_causes import Holder
from holdfast.stores.protocol import DocumentFilter, ItemFilter, Store
from holdfast.testing.conformance.base import LEASE

FILTERS: Sequence[DocumentFilter] = (
    {"batch": "march", "state": "dead"},
    {"key": "[a-c]"},
    {"key": "*", "step": "file"},
    {"key": "?", "accepted": True},
    {"text": "WHY", "idle": timedelta(seconds=10)},
    {"error": "E", "accepted": False},
    {"code": "on_hold"},
    {"code": "", "state": "paused"},
)
"""Filters that are read after every verb."""

ITEM_FILTERS: Sequence[ItemFilter] = (
    {},
    {"batch": "march", "key": "?"},
    {"step": "embed", "text": "E"},
    {"error": "E"},
)
"""Filters of items that are read after every verb."""


def read_everything(store: Store, plan: Plan, held: Sequence[Claim]) -> Any:
    """Read everything about the pipeline `papers`. Check that every batch balances."""
    standings = store.documents("papers")
    assert all(batch.balance.balances for batch in store.batches("papers"))
    return (
        store.batches("papers"),
        store.balance("papers"),
        standings,
        {
            (one.batch, one.key): [
                list(store.items(one.id)),
                list(store.served(one.id)),
                [store.served_generation(one.id, step) for step in plan.step_ids],
                store.outputs(one.id),
                store.failed_items(one.id),
                store.journal(one.id),
            ]
            for one in standings
        },
        [_items(store, which) for which in ITEM_FILTERS],
        [store.count_items("papers", step) for step in plan.step_ids],
        store.count_retries("papers"),
        store.workers(),
        store.worker_totals(since=store.now() - LEASE),
        store.next_due(plan),
        store.running(plan),
        [store.count("papers", **which) for which in FILTERS],
        [len(store.overdue_at_gate(plan, gate)) for gate in plan.gates],
        len(store.lost_claims(held)),
        store.suspects_due(plan),
        store.future_times("papers"),
        store.suspects_due(plan, batch="march"),
        store.shape("papers"),
        store.orphans("papers", grace=LEASE),
        store.wait_causes("papers"),
        store.holders("papers"),
        [key for _, key in store.documents_in_step("papers", "file")],
        [(store.count_ahead(one.id), store.holder(one.id)) for one in standings],
        _gauges(store),
        store.step_times("papers"),
        store.circuits("papers"),
        store.next_due(plan, paused=["file"]),
        store.plans("papers"),
        store.plans("papers", batch="april"),
        store.batch_counts("papers"),
        [store.missing("papers", batch.name) for batch in store.batches("papers")],
        [store.report("papers", batch.name) for batch in store.batches("papers")],
        [_journal(store.batch_journal("papers", batch.name)) for batch in store.batches("papers")],
        [store.find(key) for key in "ab"],
    )


def _items(store: Store, which: ItemFilter) -> Any:
    return [replace(item, document_id=0) for item in store.set_aside_items("papers", **which)]


def _gauges(store: Store) -> Any:
    seen = store.gauges("papers")
    return sorted(seen.documents.items(), key=str), sorted(seen.dead.items()), seen.oldest_due, seen.orphans


def cleanup_counts(cleaned: Cleaned) -> dict[str, int]:
    """Return the counts of a cleanup. The memory store counts items where others count rows, so slices may differ."""
    return cleaned.counts()


def _journal(lines: Sequence[JournalEntry]) -> list[Any]:
    return [(line.verb, line.who, line.at) for line in lines]


def comparable(answer: Any) -> Any:
    """Remove what may differ between stores: ids, and the classes of databases' errors."""
    if isinstance(answer, DocumentStatus):
        return replace(answer, id=0, plan_id=0)
    if isinstance(answer, Orphan):
        return replace(answer, document=comparable(answer.document))
    if isinstance(answer, Holder | WorkerTotals):
        return replace(answer, worker=comparable(answer.worker))
    if isinstance(answer, KnownPlan):
        return replace(answer, plan_id=0)
    if isinstance(answer, WorkerRecord):
        return replace(answer, id=0)
    if isinstance(answer, Claim):
        return replace(answer, document_id=0)
    if isinstance(answer, Plan):
        return answer.pipeline, list(answer.step_ids)
    if isinstance(answer, Refused):
        return "refused", str(answer.error) if isinstance(answer.error, RuntimeError) else "by the database"
    if isinstance(answer, HoldfastError):
        return type(answer), str(answer)
    if isinstance(answer, list | tuple):
        return [comparable(one) for one in answer]
    if isinstance(answer, dict):
        return {key: comparable(value) for key, value in answer.items()}
    return answer
