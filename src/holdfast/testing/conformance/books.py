"""The books of a store: all that can be asked of it, made comparable with those of another store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from holdfast.core.batches import Cleaned
from holdfast.core.causes import Holder
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Claim, Entry, Plan, Standing, Worked, Worker
from holdfast.core.moves import Refused
from holdfast.core.orphans import Orphan
from holdfast.core.pins import KnownPlan
from holdfast.stores.protocol import Store, Which
from holdfast.testing.conformance.base import LEASE

MEANT: Sequence[Which] = (
    {"batch": "march", "state": "dead"},
    {"key": "[a-c]"},
    {"key": "*", "step": "file"},
    {"key": "?", "accepted": True},
    {"text": "WHY", "idle": timedelta(seconds=10)},
    {"error": "E", "accepted": False},
)
"""Questions that are asked after every verb."""


def books(store: Store, plan: Plan, held: Sequence[Claim]) -> Any:
    """Asks a store everything, about the pipeline `papers`. Every batch has to balance."""
    standings = store.standings("papers")
    assert all(batch.balance.balances for batch in store.batches("papers"))
    return (
        store.batches("papers"),
        store.balance("papers"),
        standings,
        {
            (one.batch, one.key): [
                list(store.items(one.id)),
                list(store.served(one.id)),
                store.outputs(one.id),
                store.asides(one.id),
                store.journal(one.id),
            ]
            for one in standings
        },
        store.workers(),
        store.by_worker(since=store.now() - LEASE),
        store.next_due(plan),
        store.running(plan),
        [store.count("papers", **which) for which in MEANT],
        [len(store.undecided(plan, gate)) for gate in plan.gates],
        len(store.lost(held)),
        store.suspects_due(plan),
        store.suspects_due(plan, batch="march"),
        store.shape("papers"),
        store.orphans("papers", grace=LEASE),
        store.causes("papers"),
        store.holders("papers"),
        [key for _, key in store.inside("papers", "file")],
        [(store.ahead(one.id), store.holder(one.id)) for one in standings],
        _survey(store),
        store.paces("papers"),
        store.plans("papers"),
        store.plans("papers", batch="april"),
        store.census("papers"),
        [store.missing("papers", batch.name) for batch in store.batches("papers")],
        [store.report("papers", batch.name) for batch in store.batches("papers")],
        [_told(store.batch_journal("papers", batch.name)) for batch in store.batches("papers")],
        [store.find(key) for key in "ab"],
    )


def _survey(store: Store) -> Any:
    seen = store.survey("papers")
    return sorted(seen.documents.items(), key=str), sorted(seen.dead.items()), seen.oldest_due, seen.orphans


def cleaned_alike(cleaned: Cleaned) -> dict[str, int]:
    """A memory store counts items where the others count rows of them, so slices may be cut elsewhere."""
    return cleaned.counts()


def _told(lines: Sequence[Entry]) -> list[Any]:
    return [(line.verb, line.who, line.at) for line in lines]


def plain(answer: Any) -> Any:
    """Takes away what may differ between stores: the numbers they give, and the classes of databases' errors."""
    if isinstance(answer, Standing):
        return replace(answer, id=0, plan_id=0)
    if isinstance(answer, Orphan):
        return replace(answer, standing=plain(answer.standing))
    if isinstance(answer, Holder | Worked):
        return replace(answer, worker=plain(answer.worker))
    if isinstance(answer, KnownPlan):
        return replace(answer, plan_id=0)
    if isinstance(answer, Worker):
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
        return [plain(one) for one in answer]
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in answer.items()}
    return answer
